"""Each test here has a sandboxed process of its own, as a user has it, and no fork of a shared template."""

import pytest


@pytest.fixture(autouse=True)
def _has_processes_of_its_own(own_templates: None) -> None:
    del own_templates
