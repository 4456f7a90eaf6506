UV ?= uv

.PHONY: check lint test nightly costs docs docs-check site site-version examples screenshots benchmark bench bench-kernels llama-grid versions targets corpus fuzz fuzz-nightly lock proto

check: lint docs-check test

lint:
	$(UV) run ruff check .
	$(UV) run ruff format --check .
	$(UV) run pyright
	$(UV) run lint-imports

test:
	$(UV) run pytest --durations=20

# The second level: more programs, names and inputs of the kinds that `make test` has; docs/measurements/2026-11-24-tests.md.
nightly:
	$(UV) run pytest -m nightly --durations=20

# docs/benchmark.md: public reports of in-place trouble, and which tool finds them. 15 minutes on two cores.
# make benchmark TORCH=PYTHON also asks PyTorch's analysis of Triton kernels, in a Python that has torch and triton.
benchmark:
	$(UV) run python -m benchmark.run $(if $(TORCH),--torch $(TORCH))
	$(UV) run python -m benchmark.table

# Measures each file of tests anew, for the order in which a run hands them out, and prints a table of the folders.
costs:
	$(UV) run pytest --junitxml=report/junit.xml
	$(UV) run python -m tools.costs report/junit.xml

docs:
	$(UV) run python -m ligerdiag.report.rule_page docs/rules
	$(UV) run python -m tools.cli_reference docs/cli.md
	cp ligerdiag/report/schema.json docs/schema/ligerdiag-7.json
	$(UV) run python -m tools.config_schema docs/schema/pyproject-ligerdiag.json

docs-check:
	$(UV) run python -m ligerdiag.report.rule_page docs/rules --check
	$(UV) run python -m tools.cli_reference docs/cli.md --check
	cmp ligerdiag/report/schema.json docs/schema/ligerdiag-7.json
	$(UV) run python -m tools.config_schema docs/schema/pyproject-ligerdiag.json --check
	$(UV) run python -m benchmark.table --check

# The documentation as a site, in site/; tests/docs/test_site.py builds it, too.
site:
	$(UV) run mkdocs build --strict

# Commits the site of this version to the branch gh-pages, beside those of other versions, and pushes nothing.
site-version:
	$(UV) run python -m tools.deploy_site

# Runs the commands of README.md and docs/ and writes what they print; make examples PAGES="docs/tutorial.md" for one of them.
examples:
	$(UV) run python -m tools.render_documents $(PAGES)

# Needs Chromium.
screenshots:
	$(UV) run python -m tools.screenshots

# Cold and warm run of all cases, and the cost of the analysis; make bench CASES="seed_*" for some of them.
bench:
	$(UV) run python tools/bench.py $(foreach case,$(CASES),'$(case)')

# Needs an NVIDIA GPU, and for Liger's own kernels torch and liger-kernel; make bench-kernels NAMES="cross_entropy" for some.
bench-kernels:
	$(UV) run --extra gpu python -m tools.bench_kernels $(NAMES)

# The train step of a Llama from one GPU to 512, judged without one: make llama-grid ROWS="fsdp-*-64-*" for some. To train it on
# the GPUs here: uv run --extra gpu python -m tools.train_llama
llama-grid:
	$(UV) run python -m tools.llama_grid $(foreach row,$(ROWS),'$(row)')

# docs/versions.md: what each version of JAX and Triton makes of the same programs. Makes their environments, a GB or more each.
versions:
	$(UV) run ligerdiag sweep docs/versions.toml --out versions || true
	$(UV) run python -m tools.map_of_versions versions docs/versions.md

# docs/targets.md: what XLA makes of the same programs for each GPU that it describes. 15 minutes on two cores, and two gigabytes
# for the toolchain that compiles for AMD.
TARGETS = $(shell $(UV) run ligerdiag targets | awk '$$2 == "$(1)" {print $$1}' | paste -sd,)
SEED = 'seed_flce[*' 'seed_cross_entropy[*'
targets:
	rm -f targets.json amd.json
	$(UV) run ligerdiag check $(SEED) --target $(call TARGETS,NVIDIA) --format json --output targets.json || true
	$(UV) run ligerdiag check $(SEED) --target $(call TARGETS,AMD) --format json --output amd.json || true
	$(UV) run python -m tools.map_of_targets targets.json amd.json docs/targets.md
	rm targets.json amd.json

# Twenty thousand random programs, judged by their schedules alone and compared with what their numbers once said: about two hours on
# two cores. After a change of the verdict; `python -m tools.corpus --help` says how to judge some, and how to add others.
corpus:
	$(UV) run python -m tools.corpus judge

# Is ligerdiag right about random programs? make fuzz OPTIONS="--seed 5000 --count 1000" for others; --help lists the options.
fuzz:
	$(UV) run python -m tools.fuzz $(OPTIONS)

# 50,000 mutations of what strangers may hand us, with claims about the verdicts afterwards; another thousand each night:
# make fuzz-nightly SEED=$$(date +%Y%m%d)00000. An interrupted run says how to continue.
SEED ?= 0
COUNT ?= 50000
fuzz-nightly:
	$(UV) run python -m tools.claims --count $(COUNT) --seed $(SEED)

# Pins every package in pyproject.toml anew; what was chosen there by hand is kept.
lock:
	$(UV) run --no-project python tools/lock.py

PROTOC = $(UV) run --no-project --with "grpcio-tools<1.70" --with "setuptools<81" python -m grpc_tools.protoc
proto:
	cd ligerdiag/hlo && $(PROTOC) -I. --python_out=. --pyi_out=. xla.proto
	cd ligerdiag/effects && $(PROTOC) -I. --python_out=. --pyi_out=. triton_call.proto
	cd ligerdiag/toolchains && $(PROTOC) -I. --python_out=. --pyi_out=. autotune_results.proto
