# One entry for people and for CI; `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.NOTPARALLEL:

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/collections

LAB_PY := python3 molecule/lab/lab.py
VMS_PY := python3 molecule/lab/vms.py
LAB_INVENTORY = $(or $(LAB_DIR),/var/lib/tandem-lab)/$(or $(LAB),tandem)/inventory
PYTEST := pytest --quiet

.PHONY: help
help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | column -t -s '|'

# -- the environment ---------------------------------------------------------------------------------------------------
.PHONY: env system lock
env: .venv/made ## make .venv with all that development needs
.venv/made: requirements/make_env.sh requirements/uv.txt requirements/dev.txt
	@requirements/make_env.sh

system: ## install the Debian or Ubuntu packages that all this needs (root)
	@python3 -c 'import ensurepip' 2>/dev/null || { apt-get -qq update && apt-get -qq install -y python3-venv; }
	@$(LAB_PY) prepare

lock: env ## write the hashed lists anew from requirements/*.in; UPGRADE=1 takes newer versions, LISTS names some
	python requirements/lock.py $(if $(UPGRADE),--upgrade) $(LISTS)

# -- the rehearsal -----------------------------------------------------------------------------------------------------
.PHONY: rehearse rehearse-down rehearse-purge
rehearse: system env ## site.yml over two local nodes with a real vLLM, from nothing to a judged answer (root)
	$(LAB_PY) up
	ansible-playbook site.yml -i $(LAB_INVENTORY)
	@echo 'The nodes have a network of their own; from inside it the API is asked like this:'
	$(LAB_PY) client -- curl -s http://192.168.50.11:8888/v1/models
	@echo

rehearse-down: ## remove the nodes, their links and namespaces; images and wheels stay cached
	$(LAB_PY) down

rehearse-purge: ## the same, and every cache
	$(LAB_PY) purge
	rm -rf ~/.cache/tandem

# -- the tests, cheap ones first ---------------------------------------------------------------------------------------
.PHONY: test test-all static format lint sanity unit coverage bench-self tools engine-cli lab-test molecule rails rdma driver build-lab boot faults tune container ray
.PHONY: docs site findings profiles flags recovery
# What is timed comes first and alone. Then what needs no engine on nodes runs beside what does, in a scheduling group of
# its own (autogroup; nice counts inside one only) that gives way, since engines that stand still are what tests look for.
test: env bench-self ## all of them (root, for the lab)
	@log=$$(mktemp)
	setsid bash -c 'echo 5 >/proc/self/autogroup || true; "$$@" || ended=$$?
	    echo "make static, beside it: ended after $$((SECONDS / 60)) min"; exit "$${ended:-0}"' _ \
	    $(MAKE) --no-print-directory --keep-going static >"$$log" 2>&1 & static=$$!
	trap 'kill -- "-$$static" 2>/dev/null || true; rm -f "$$log"' EXIT
	ended=0; $(MAKE) --no-print-directory molecule || ended=$$?
	echo "make molecule: ended after $$((SECONDS / 60)) min"
	wait "$$static" || ended=$$?
	cat "$$log"
	[[ $$ended = 0 ]] || { echo "make test: failed, see above" >&2; exit "$$ended"; }
	echo "make test: all of it passed, nothing was skipped"

static: env lab-test lint unit docs sanity tools engine-cli ## those that need no engine on nodes

format: env ## put the Python into its one form
	ruff check --quiet --fix-only .
	ruff format --quiet .

lint: env ## ruff, yamllint, shellcheck, ansible-lint and the changelog fragments
	ruff check .
	ruff format --check .
	yamllint --strict .
	shellcheck $$(git ls-files '*.sh' .ci/run)
	antsibull-changelog lint
	ansible-lint --strict --offline

unit: env ## the tables, the artefact's files, the lists and the specs
	$(PYTEST) -m "$${TANDEM_TESTS:-not long}" tests/unit

coverage: env ## the unit tests once more, with what they leave out
	$(PYTEST) --cov --cov-report=term tests/unit

findings: env ## write docs/findings.md anew from the catalogue of findings
	python docs/findings.py

profiles: env ## write docs/profiles.md anew from the profiles
	python docs/profiles.py

recovery: env ## write the table of docs/recovery.md anew from what the last `make faults` measured
	python docs/recovery.py $(or $(LAB_DIR),/var/lib/tandem-lab)/recovery.json

flags: env ## write anew which flags each release of vLLM knows, asked of its own parser (5 GB in ~/.cache/tandem)
	PYTHONPATH=collections python tests/engine_cli/engine.py

docs: env ## every module, plugin and role page is complete and its references hold
	antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs all --skip-rstcheck .

SITE := build/site
site: env ## docs/ and the pages of modules, plugins and roles as one site, warnings are errors
	rm -rf $(SITE)
	mkdir -p -m 755 $(SITE)/pages/collections
	antsibull-docs collection --use-current --fail-on-error --no-breadcrumbs --squash-hierarchy \
	    --dest-dir $(SITE)/pages/collections tandem.spark
	cp docs/*.md docs/site/*.md $(SITE)/pages/
	for page in README CONTRIBUTING; do sed 's|(docs/|(|g' $$page.md >$(SITE)/pages/$$page.md; done
	install -D -t $(SITE)/pages/examples examples/README.md
	sed -Ei 's/\[([a-z0-9-]+)\]\(\1\)/`\1`/' $(SITE)/pages/examples/README.md  # folders are no pages
	sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs/site $(SITE)/pages $(SITE)/html
	@echo "$(SITE)/html/index.html"

sanity: env ## ansible-test sanity on the built artefact
	tests/sanity.sh

bench-self: env ## the figures that the code itself must hold
	for bench in tests/bench/*.py; do echo "$$bench"; python "$$bench"; done

# Debian's own, unpacked and not installed: the package would start a service.
PROMETHEUS := build/tools/usr/bin/prometheus
$(PROMETHEUS):
	@mkdir -p build/tools
	cd build/tools && apt-get -qq update && apt-get -qq download prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb

DOCKER := build/tools/usr/bin/docker
$(DOCKER):
	@mkdir -p build/tools
	cd build/tools && apt-get -qq update && apt-get -qq download docker.io && dpkg-deb -x docker.io_*.deb . && rm docker.io_*.deb

tools: env $(PROMETHEUS) $(DOCKER) ## the report in a real browser, the rules in a real Prometheus, the CUDA repository in a real apt, container command lines in a real Docker client (root)
	@command -v nft >/dev/null || { apt-get -qq update && apt-get -qq install -y --no-install-recommends nftables; }
	@command -v chromium >/dev/null || { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; }
	@command -v gpg >/dev/null || { apt-get -qq update && apt-get -qq install -y --no-install-recommends gnupg; }
	$(PYTEST) tests/tools

engine-cli: env ## the real parser of vLLM 0.33.0 takes our command lines; the patches on real source archives
	$(PYTEST) tests/engine_cli

lab-test: env ## the lab does what it says (root)
	@$(LAB_PY) check
	$(PYTEST) molecule/lab/tests

molecule: env $(PROMETHEUS) ## the whole deployment on two nodes: check, converge, idempotence, verify, faults (root)
	@$(LAB_PY) check
	molecule test --scenario-name default

rails: env ## the rails alone, on nodes whose network networkd or NetworkManager writes (root)
	@$(LAB_PY) check
	molecule test --scenario-name rails_networkd
	LAB_NETWORK=netplan-networkd molecule test --scenario-name rails_networkd
	molecule test --scenario-name rails_networkmanager
	LAB_NETWORK=networkmanager molecule test --scenario-name rails_networkmanager

rdma: env ## the rails on two emulated machines with soft-RoCE, whose GID tables are moved (root; installs QEMU)
	@$(VMS_PY) prepare
	LAB=$(or $(LAB),tandem)-rdma molecule test --scenario-name rdma

driver: env ## driver and kernel held, changed, brought back: real apt, stub packages, without an engine (root)
	@$(LAB_PY) check
	LAB=$(or $(LAB),tandem)-driver molecule test --scenario-name driver

build-lab: env ## a real build from source on a node, cut off in every way, and NVIDIA's repository as stubs (root)
	@$(LAB_PY) check
	@command -v gpg >/dev/null || { apt-get -qq update && apt-get -qq install -y --no-install-recommends gnupg; }
	LAB=$(or $(LAB),tandem)-build molecule test --scenario-name build

faults: env ## everything that breaks in a pair that serves, and how it comes back (root)
	@$(LAB_PY) check
	LAB=$(or $(LAB),tandem)-faults TANDEM_TESTS='long or not long' molecule test --scenario-name faults

boot: env ## a kernel boots once by real GRUB in an emulated machine, and the old one stays the default (root; installs QEMU)
	@$(VMS_PY) prepare
	$(PYTEST) molecule/boot/tests

tune: env ## tune.yml over a pair whose engine degenerates with graphs above two sequences (root)
	@$(LAB_PY) check
	LAB=$(or $(LAB),tandem)-tune molecule test --scenario-name tune

container: env ## a pair from processes to containers and back, over a real Docker and a registry of its own (root, 45 GB)
	@$(LAB_PY) check
	LAB=$(or $(LAB),tandem)-container molecule test --scenario-name container

ray: env ## a pair from processes to a cluster of Ray and back, with real Ray on two nodes (root)
	@$(LAB_PY) check
	LAB=$(or $(LAB),tandem)-ray molecule test --scenario-name ray

test-all: export TANDEM_TESTS := long or not long
test-all: test site rails rdma driver build-lab boot faults tune container ray ## the same with the tests that take long (root, for the lab)
