# Two commands are all that a newcomer needs: `make demo` and `make test`. Both need only Python >= 3.11 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
QUIET := --quiet --disable-pip-version-check

.PHONY: demo test test-all test-libraries docs notebooks install lint benchmarks speed resume tune-all recording kills mutants clean

# What a user installs.
install: $(VENV)/.installed
$(VENV)/.installed: pyproject.toml
	@echo "Installing into $(VENV) (TensorFlow is large; this takes about a minute) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(QUIET) --editable .
	@touch $@

# What the tests need beside it.
$(VENV)/.installed-for-tests: $(VENV)/.installed
	$(BIN)/python -m pip install $(QUIET) --editable ".[test,postgresql,mysql]"
	@touch $@

# A learning-rate search for PPO on CartPole-v1: 16 rates, 3 seeds each, into a SQLite file, with its report.
DEMO := demo
DEMO_STEPS := 20000
demo: install
	@mkdir -p $(DEMO)
	$(BIN)/finder lr ppo --env CartPole-v1 --env-steps $(DEMO_STEPS) --storage sqlite:///$(DEMO)/finder.db \
		--study-name demo
	$(BIN)/finder report demo --storage sqlite:///$(DEMO)/finder.db --output $(DEMO)/report.html

# Everything but what is slow, or starts processes, databases and browsers. Less than ten minutes on two cores.
test: lint
	$(BIN)/python -m pytest --quiet -n auto --dist worksteal -m "not slow and not real"

# All tests, as continuous integration runs them.
test-all: test
	$(BIN)/python -m pytest --quiet -n auto --dist worksteal -m "slow or real"

# Agents in PyTorch and of Stable-Baselines3, MLflow and Weights & Biases: Finder does not need these packages, so their tests
# have a virtual environment of their own.
LIBRARIES := .venv-libraries
test-libraries: $(LIBRARIES)/.installed
	$(LIBRARIES)/bin/python -m pytest --quiet -n auto --dist worksteal tests/libraries
$(LIBRARIES)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LIBRARIES)
	$(LIBRARIES)/bin/python -m pip install $(QUIET) torch==2.13.0 stable-baselines3 sb3-contrib mlflow-skinny wandb
	$(LIBRARIES)/bin/python -m pip install $(QUIET) pytest pytest-xdist --editable .
	@touch $@

lint: $(VENV)/.installed-for-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation, into site/. Warnings are errors.
docs: $(VENV)/.installed-for-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The tutorials, with their outputs. Needs Chromium.
notebooks: $(VENV)/.installed-for-docs
	$(BIN)/python docs/generate/execute_notebooks.py

$(VENV)/.installed-for-docs: $(VENV)/.installed
	$(BIN)/python -m pip install $(QUIET) --editable ".[docs]"
	@touch $@

# Searches are killed in the middle of their trials more than a hundred times, and started again. An hour.
kills: $(VENV)/.installed-for-tests
	FINDER_KILLS=108 $(BIN)/python -m pytest --quiet tests/finder/executors/test_kills.py

# Single faults are put into the code: does a test catch each? Hours; results/mutants.md.
mutants: $(VENV)/.installed-for-tests
	$(BIN)/python -m benchmarks.mutants

# Hours of training: greedy returns over seeds. Cases that are done are not run again.
benchmarks: install
	$(BIN)/python -m benchmarks.learning.returns
	$(BIN)/python -m benchmarks.learning.returns --summary

# Speed beside Stable-Baselines3, which lives in an environment of its own (see benchmarks/training/README.md).
speed: install
	$(BIN)/python -m benchmarks.training.speed

# Long runs that are killed and go on, beside the same ones left alone. A quarter of an hour.
resume: install
	$(BIN)/python -m benchmarks.searches.resume

# `finder tune` of every algorithm, into one SQLite file. Half an hour.
tune-all: install
	sh benchmarks/searches/tune_all.sh

# What recording costs.
recording: install
	$(BIN)/python -m benchmarks.training.recording

clean:
	rm -rf $(VENV) $(LIBRARIES) demo build site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
