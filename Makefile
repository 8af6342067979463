# Everything a newcomer or CI needs. `make` alone lists the targets.
# Needed on the machine: Rust 1.95 and, for the local control plane, Go 1.26. Python 3.10 with venv is used where it is there.
# Nothing is installed outside of target/, but for Debian's chromium by `make ui`, as root where there is none.

TARGET := $(or $(CARGO_TARGET_DIR),target)
# Where `make sandbox` keeps its files, and which real managers and simulators it starts: the demo's unless told otherwise.
DIR ?= $(TARGET)/sandbox
WITH ?= capi,ipam,hosts,ec2,cloudstack
# What `make bench` measures, the numbers of objects of the idle run, and more flags for every run.
ONLY ?= idle vip claims machines capacity hosts clusters
OBJECTS ?= 10000 100000
ARGS ?=
# How many seeds `make soak` plays of every scenario and history, how many cases of every property it tries, and for how many
# seconds its storm lasts.
SEEDS ?= 1000
CASES ?= 20000
STORM ?= 600
STEP := hack/step
# The binary as the image has it: static. Naming the target keeps the flags away from build scripts and macros, which cannot be.
HOST = $(shell rustc --print host-tuple)
RELEASE = $(TARGET)/$(HOST)/release

.DEFAULT_GOAL := help
.PHONY: help demo sandbox test soak lint plane capi peers release bench crds chart rules book ui foreign clean bins checks

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: plane capi bins ## show Berth at work with real managers on a real API server, two to three minutes once built
	@$(TARGET)/debug/berth-sandbox demo

sandbox: plane bins $(if $(findstring capi,$(WITH))$(findstring ipam,$(WITH)),capi) ## the same world kept running, or a part of it: make sandbox [DIR=d] [WITH=capi,hosts], WITH= for the server and Berth alone
	@$(TARGET)/debug/berth-sandbox up --dir $(DIR) $(if $(WITH),--with $(WITH))

test: ## everything CI checks, with the time of each step
	@hack/need cargo go gofmt
	@$(STEP) --begin
	@$(STEP) "control plane" $(MAKE) --no-print-directory plane capi
	@$(MAKE) --no-print-directory lint IN_TEST=1
	@$(MAKE) --no-print-directory checks
	@$(STEP) --table

lint: ## formatting, clippy, go vet, ruled out crates
	@hack/need cargo go gofmt
	@$(if $(IN_TEST),true,$(STEP) --begin)
	@$(STEP) "format" cargo fmt --all --check
	@$(STEP) "clippy" cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	@$(STEP) "go format and vet" hack/plane lint
	@$(STEP) "ruled out crates" hack/crates
	@if command -v cargo-deny >/dev/null; then $(STEP) "licences and advisories" cargo deny --log-level error check; \
	else $(STEP) --skip "licences and advisories" "cargo-deny is not installed"; fi

# The part of `make test` that runs the code. The commands in the documentation are run by a test of the crate berth.
# Tests need every program and bring it along; a build of the programs alone has other features, so it would come on top.
checks:
	@$(STEP) "build" cargo test --locked --workspace --no-run --quiet
	@$(STEP) "kubectl" hack/plane kubectl
	@$(STEP) "helm" hack/chart helm
	@$(STEP) "tests" env BERTH_REQUIRE_SERVER=1 hack/tests
	@$(MAKE) --no-print-directory foreign IN_TEST=1
	@why=$$(hack/ui missing); if [ -n "$$why" ]; then $(STEP) --skip "web view in a browser" "$$why"; \
	else $(STEP) "web view in a browser" hack/passed ui "=$$(hack/ui version)" \
	  hack/ui hack/ui.py book/src/reasons crates/berth/src/ui $(TARGET)/debug/berth \
	  -- env BERTH_UI_UNTIMED=1 BERTH=$(TARGET)/debug/berth hack/ui check; fi
	@$(STEP) "definitions are current" $(TARGET)/debug/berth crds --check
	@$(STEP) "rights are current" $(TARGET)/debug/berth rbac --check
	@$(STEP) "webhooks are current" $(TARGET)/debug/berth webhooks --check
	@$(STEP) "pages about kinds are current" $(TARGET)/debug/berth reference --check
	@$(STEP) "chart" hack/passed chart hack/chart chart deploy metadata.yaml plane/helm -- hack/chart check
	@$(STEP) "alerts" hack/passed alerts hack/rules chart/files chart/tests chart/dashboards plane/promtool -- hack/rules check
	@why=$$(hack/book missing); if [ -n "$$why" ]; then $(STEP) --skip "book" "$$why"; \
	else $(STEP) "book" hack/passed book hack/book book SECURITY.md crates/claim-kind -- hack/book build; fi

# What `make test` does with a few seeds, always the same cases, some old caches and half a minute. BERTH_SEED is the first seed
# where it is set; properties draw cases that nobody has tried, and what fails is kept beside the test. The
# whole workspace is selected, so that what `make test` built is used; one step that fails does not keep the next from running.
SWEEPS = cargo test --locked --workspace --no-fail-fast --test world --test contract --test data --test unserved --test sweep
PROPERTIES = cargo test --locked --workspace --no-fail-fast --lib $(patsubst %,--test %,cloudstack core decide ec2 explain hooks net render survey topology yard)
soak: plane ## play many random schedules and histories, every old cache, many new cases, and a long storm of faults, hours: make soak [SEEDS=1000] [CASES=20000] [STORM=600]
	@hack/need cargo go
	@$(STEP) --begin
	@code=0; \
	$(STEP) "random schedules and histories" env BERTH_SEEDS=$(SEEDS) PROPTEST_CASES=$(CASES) $(SWEEPS) -- random_schedules in_every_history no_history_lets || code=1; \
	$(STEP) "properties" env PROPTEST_CASES=$(CASES) PROPTEST_MAX_GLOBAL_REJECTS=10000000 $(PROPERTIES) || code=1; \
	$(STEP) "every old cache" env BERTH_STALE=all $(SWEEPS) -- older_cache old_news old_caches || code=1; \
	$(STEP) "storm" env BERTH_REQUIRE_SERVER=1 BERTH_STORM_SECONDS=$(STORM) \
	  cargo test --locked --workspace --test server -- a_storm_of_faults_and_kills || code=1; \
	$(STEP) --table; exit $$code

plane: ## build the local control plane (minutes the first time)
	@hack/plane plane

capi: ## build the real Cluster API managers for the sandbox (minutes the first time)
	@hack/plane capi

peers: ## build the other people's controllers that benches measure beside Berth (minutes the first time)
	@hack/peers

release: ## build the static binary that the image holds
	@hack/need cargo
	@RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$(CURDIR)=." cargo build --locked --release --package berth --target $(HOST)
	@ls -l $(RELEASE)/berth

# One malloc arena, as the image and the chart set it. Documents and tables stay in $(TARGET)/figures.
bench: plane capi release ## measure on this machine: make bench [ONLY="idle vip claims machines capacity hosts clusters"] [OBJECTS="10000"] [ARGS=...]
	@cargo build --locked --profile tool --package bench
	@mkdir -p $(TARGET)/figures
	@run() { name=$$1; shift; env MALLOC_ARENA_MAX=1 $(TARGET)/tool/berth-bench "$$@" --subject $(RELEASE)/berth \
	  --out $(TARGET)/figures/$$name.json --markdown $(TARGET)/figures/$$name.md $(ARGS); }; \
	for what in $(ONLY); do case $$what in \
	  idle) for n in $(OBJECTS); do run idle-$$n run --objects $$n || exit $$?; done ;; \
	  *) run $$what $$what || exit $$? ;; \
	esac; done

crds: bins ## write definitions, rights and webhook configurations into the chart, and the pages about kinds into the book
	@for kind in crds rbac webhooks reference; do $(TARGET)/debug/berth $$kind --write || exit 1; done

chart: ## render deploy/ from the Helm chart and check both (builds helm the first time)
	@hack/chart render
	@hack/chart check

rules: ## check the chart's alerts and run their tests (builds promtool the first time)
	@hack/rules check

book: ## build the book (builds mdbook the first time)
	@hack/book build

ui: ## look at the web view with a headless browser, with screenshots in target/ui (installs Debian's chromium if it may)
	@hack/need cargo python3
	@hack/ui check

# Under `make test` the build of the tests has made the programs.
foreign: $(if $(IN_TEST),,bins) ## cross our EC2 and CloudStack code with other people's clients and simulators (installs them the first time)
	@hack/need cargo go
	@$(if $(IN_TEST),true,$(STEP) --begin)
	@$(STEP) "CloudStack and Apache's Go client" hack/foreign-cloudstack go
	@why=$$(hack/venv) || :; \
	step() { if [ -z "$$why" ]; then $(STEP) "$$@"; else $(STEP) --skip "$$1" "$$why"; fi; }; \
	step "CloudStack and cs" hack/foreign-cloudstack python && \
	step "EC2 and boto3" hack/foreign-ec2 simulator && \
	step "EC2 and moto" hack/foreign-ec2 client

# The whole workspace with the features that its tests ask for, so that `make test` finds what `make demo` built.
bins:
	@hack/need cargo
	@cargo build --locked --workspace --bins --features aws/fuzz,claim-kind/contract

clean: ## remove everything that was built
	@rm -rf $(TARGET)/plane $(TARGET)/peers $(TARGET)/tools $(TARGET)/chart $(TARGET)/sandbox $(TARGET)/steps.tsv
	@if command -v cargo >/dev/null; then cargo clean --quiet; fi
