"""The table of toolchains must be exact and complete; any other table is rejected."""

from dataclasses import replace

import pytest

from ligerdiag.codec import FieldError
from ligerdiag.errors import InputError
from ligerdiag.toolchains.toolchain import Platform
from ligerdiag.toolchains.toolchain_table import (
    ToolchainSpec,
    find_by_platform,
    find_spec,
    known_releases,
    known_toolchains,
    parse_table,
)

ENTRY = """
[toolchain.old]
about = "a test"
python = "3.12"
options = { xla_gpu_autotune_level = 0 }
packages = ["jax==0.4.34", "ml-dtypes==0.5.4"]
"""


def test_an_entry_has_its_packages_and_the_options_that_its_xla_needs() -> None:
    (spec,) = parse_table(ENTRY).values()
    assert spec == ToolchainSpec(
        name="old",
        about="a test",
        python="3.12",
        packages={"jax": "0.4.34", "ml-dtypes": "0.5.4"},
        options={"xla_gpu_autotune_level": 0},
    )
    assert spec.requirements == ("jax==0.4.34", "ml-dtypes==0.5.4")


@pytest.mark.parametrize("pin", ["jax>=0.4", "jax", "jax==0.4.34 ; python_version > '3'", "https://x/jax.whl"])
def test_a_package_without_one_exact_version_is_refused(pin: str) -> None:
    with pytest.raises(FieldError, match="expected one exact version of each package of `old` but got"):
        parse_table(ENTRY.replace("jax==0.4.34", pin))


def test_a_package_pinned_twice_is_refused() -> None:
    with pytest.raises(FieldError, match=r"but got `jax==0\.4\.35`"):
        parse_table(ENTRY.replace('"ml-dtypes', '"jax==0.4.35", "ml-dtypes'))


def test_the_name_of_our_own_toolchain_is_reserved() -> None:
    with pytest.raises(FieldError, match="other than `default`"):
        parse_table(ENTRY.replace("toolchain.old", "toolchain.default"))


def test_an_unknown_toolchain_names_the_known_ones() -> None:
    said = r"a toolchain of default, seed, .*0\.12, rocm, or .* from jax-0\.4\.31 to jax-0\.12\.0\.1, but got `sed`"
    with pytest.raises(InputError, match=said):
        find_spec("sed")


RELEASES = """
[toolchain.old.releases]
"0.5.2" = "0.5.1"
"0.9.0.1" = "0.9.0.1"
"""


def test_a_release_of_jax_is_its_base_toolchain_with_that_jax_and_jaxlib() -> None:
    entry = ENTRY.replace('"jax==0.4.34", ', '"jax==0.4.34", "jaxlib==0.4.34", "jax-cuda12-plugin==0.4.34", ')
    base, early, late = parse_table(entry + RELEASES).values()
    assert (base.like, early.name, late.name) == ("", "jax-0.5.2", "jax-0.9.0.1")
    assert early.packages == {"jax": "0.5.2", "jaxlib": "0.5.1", "jax-cuda12-plugin": "0.5.1", "ml-dtypes": "0.5.4"}
    assert (early.like, early.options, early.about) == ("old", base.options, "as `old`, with jax 0.5.2")
    assert len({spec.directory_name for spec in (base, early, late)}) == 3


@pytest.mark.parametrize("release", ['"0.5.x" = "0.5.1"', '"0.5.2" = "new"'])
def test_a_release_that_is_not_a_version_is_refused(release: str) -> None:
    with pytest.raises(FieldError, match=r"expected a release such as `0\.9\.0\.1`"):
        parse_table(f"{ENTRY}[toolchain.old.releases]\n{release}\n")


def test_each_release_appears_once_in_order() -> None:
    versions = [tuple(map(int, spec.packages["jax"].split("."))) for spec in known_releases()]
    assert versions == sorted(set(versions))
    assert len(versions) == 34
    assert {spec.packages["jax"] for spec in known_toolchains()} <= {spec.packages["jax"] for spec in known_releases()}
    for spec in known_releases():
        (base,) = [one for one in known_toolchains() if one.name == spec.like]
        assert spec.packages.keys() == base.packages.keys()
        if spec.packages["jax"] == base.packages["jax"]:
            assert spec.packages == base.packages


def test_other_pins_or_another_python_are_another_environment() -> None:
    (spec,) = parse_table(ENTRY).values()
    names = {
        spec.directory_name,
        replace(spec, python="3.13").directory_name,
        replace(spec, packages={**spec.packages, "jax": "0.4.35"}).directory_name,
    }
    assert len(names) == 3
    assert replace(spec, about="otherwise", options={}).directory_name == spec.directory_name


def test_a_toolchain_says_which_platform_it_compiles_for() -> None:
    assert parse_table(ENTRY)["old"].platform is Platform.CUDA
    rocm = parse_table(ENTRY.replace("packages", 'platform = "rocm"\npackages', 1))["old"]
    assert rocm.platform is Platform.ROCM
    assert rocm.directory_name != parse_table(ENTRY)["old"].directory_name, "it also has libraries of ligerdiag's own"
    with pytest.raises(FieldError, match="platform"):
        parse_table(ENTRY.replace("packages", 'platform = "tpu"\npackages', 1))
    assert [find_by_platform(platform) for platform in Platform] == ["default", "rocm"]


@pytest.mark.parametrize("spec", known_toolchains(), ids=lambda spec: spec.name)
def test_every_toolchain_has_all_packages_for_a_compile_without_a_gpu(spec: ToolchainSpec) -> None:
    one_version = [
        name for name in spec.packages if name in ("jax", "jaxlib") or name.startswith(("jax-cuda", "jax-rocm"))
    ]
    assert len(one_version) == 4
    assert len({spec.packages[name] for name in one_version}) == 1, "else JAX ignores the plugin"
    assert {"jax-triton", "triton", "protobuf"} <= spec.packages.keys()
