# Two commands matter: `make run` and `make test`. Each installs first what is missing (`make help` lists the rest).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
APACHE := .cache/kafka-3.9.1
STREAMS := .cache/kafka-streams-3.9.1
CONNECT := .cache/kafka-connect-3.9.1
# What `make run` takes: make run PORT=19092 BROKERS=5 DIR=/tmp/cluster
PORT    = 9092
BROKERS = 3
DIR     = .cache/cluster
# What the tests take: make soak SOAK_SECONDS=60 SOAK_SEED=7; make test WORKERS=4
WORKERS      = 3
SOAK_SECONDS = 600
SEEDS        = 30
RECORD_SEEDS = 5
SOAK_SEEDS   = 10000
MUTANT_RUNS = 20
FAULTS       = all

# Three files at a time, as many wait rather than compute; a file with a cluster or a Spark session makes it once.
# Their order is that of tests/conftest.py. Without bytecode, each process compiles what it imports: 12 s a worker
export PYTHONDONTWRITEBYTECODE :=
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

BENCHES = $(filter-out __init__ report players,$(basename $(notdir $(wildcard tests/benchmarks/*.py))))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install python ports java run test test-slow interop soak simulate test-spark test-thespian lint format bench docs site apache connect clients clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) java $(VENV)/.spark ## .venv with everything in it, and Java 17 where it can be installed

python:
	@$(PYTHON) -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "kafka-actors needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Say which with: make install PYTHON=python3.12"; exit 1; }

$(STAMP): pyproject.toml $(wildcard messages/wire/*.c) | python
	@$(PYTHON) -I -S .ci/install.py $(VENV)

ports: python
	@$(PYTHON) -I -S .ci/ports.py $(PORT) $(BROKERS)

java:
	@sh .ci/java

$(VENV)/.spark: $(STAMP) spark/java.py | java
	@$(BIN)/kafka-actors spark prepare && touch $@ || echo "Spark is not prepared: 'kafka-actors summary' will take its time, where it can run at all"

run: ports java ## a cluster on a real ZooKeeper, in the foreground (PORT=9092 BROKERS=3 DIR=...; Ctrl-C stops it)
	@$(PYTHON) -I -S .ci/install.py $(VENV) run
	@exec $(BIN)/kafka-actors up --brokers $(BROKERS) --port $(PORT) --dir "$(DIR)"

test: install ## the tests: rules, actors in process, one cluster of real processes (five minutes on two cores)
	$(BIN)/python -m pytest $(PARALLEL) --durations=20 -m 'not apache and not spark_cluster and not slow' $(ARGS)

test-slow: install ## the slow tests: clusters of processes, a short soak, Spark, the wheel, tutorials, mutants
	$(BIN)/python -m pytest $(PARALLEL) -m 'slow and not apache and not spark_cluster' $(ARGS)

interop: install $(if $(KAFKA_LIBS),,apache) ## the tests beside Apache Kafka 3.9.1 (about five minutes)
	$(BIN)/python -m pytest $(PARALLEL) -m apache $(ARGS)

soak: install connect test-spark ## inject faults into a cluster for SOAK_SECONDS (600; SOAK_SEED: that seed), run SOAK_SEEDS (10000) simulations and a hundredth of them with records, measure all mutants by MUTANT_RUNS (20; 200 take a night)
	$(BIN)/python -m pytest -s -m soak --soak-seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--soak-seed $(SOAK_SEED)) $(ARGS) tests
	[ $(SOAK_SEEDS) = 0 ] || $(BIN)/kafka-actors simulate --seed $(SEEDS) --seeds $(SOAK_SEEDS) --duration 30 --faults all --keep .cache/simulation
	[ $(SOAK_SEEDS) = 0 ] || $(BIN)/kafka-actors simulate --records --seed $(RECORD_SEEDS) --seeds $$(($(SOAK_SEEDS) / 100)) --duration 40 --faults all --keep .cache/simulation
	[ $(SOAK_SEEDS) = 0 ] || $(BIN)/python -m tests.simulation.mutants --runs $(MUTANT_RUNS)

simulate: install ## simulate clusters under random faults: SEEDS (30) of them, and RECORD_SEEDS (5) shorter ones with records
	$(BIN)/kafka-actors simulate --seeds $(SEEDS) --duration 60 --faults $(FAULTS) --keep .cache/simulation
	$(BIN)/kafka-actors simulate --records --seeds $(RECORD_SEEDS) --duration 40 --faults $(FAULTS) --keep .cache/simulation

test-spark: install ## the tests with Spark's executors, masters and workers
	$(BIN)/python -m pytest $(PARALLEL) -m spark_cluster $(ARGS) tests/spark

test-thespian: install ## Thespian's own test-suite, run on our system base
	$(BIN)/python -m pytest -q -n 8 --dist worksteal -p tests.thespian_suite.plugin --pyargs thespian.test $(ARGS)

lint: install ## ruff (rules and format), mypy, and the rules of tests/lint: layers, names, words, links, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.lint

format: install ## format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install ## every benchmark, one JSON object per line (twenty minutes; beside Apache where `make apache` was)
	@for name in $(BENCHES); do $(BIN)/python -m tests.benchmarks.$$name || exit 1; done

docs: install ## regenerate what the documentation takes from the code
	$(BIN)/python -m tests.docs.state_machines
	$(BIN)/python -m tests.docs.simulation
	$(BIN)/python -m tests.docs.catalogue
	$(BIN)/python -m tests.docs.columns
	$(BIN)/python -m tests.docs.growth
	$(BIN)/python -m tests.docs.references
	$(BIN)/python -m tests.docs.paths
	$(BIN)/python -m tests.docs.architecture
	$(BIN)/python -m tests.docs.notebook

site: $(VENV)/.docs ## the documentation as a site in .cache/site, readable without a network (needs npm)
	$(BIN)/python .ci/site.py .cache/site

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

clients: install ## twenty steps of each client library, built in .cache/clients (ARGS: names, --bootstrap)
	$(BIN)/python -m tests.clients $(ARGS)

apache: $(APACHE)/.complete $(STREAMS)/.complete ## the jars of Apache Kafka 3.9.1, for the tests against the original (needs Maven)

$(APACHE)/.complete: .ci/apache-kafka.xml
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(APACHE)" -DincludeScope=runtime
	@touch $@

$(STREAMS)/.complete: # without its dependencies: the jars above have them, and the test's store is in memory
	mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact=org.apache.kafka:kafka-streams:3.9.1 \
		-DoutputDirectory="$(CURDIR)/$(STREAMS)"
	@touch $@

connect: $(CONNECT)/.complete ## the jars of Kafka Connect, MirrorMaker and Streams 3.9.1, for the soak (needs Maven)

$(CONNECT)/.complete: .ci/kafka-connect.xml
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(CONNECT)" -DincludeScope=runtime
	@touch $@

clean: ## remove what `make` made, the cluster's data included
	rm -rf $(VENV) .cache build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
