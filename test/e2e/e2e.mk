# The parts of make test-e2e and of make soak. Included by the Makefile of the repository.

.PHONY: e2e-cluster
e2e-cluster: controlplane ## Run the tests of chaos, guides, cookbook and demo on simulated nodes
	@mkdir -p $(BONGSU_TEST_PERMISSIONS)
	@go run ./hack/test $(TEST_FLAGS) -timeout 40m $(E2E_PKG)

.PHONY: e2e-steady
e2e-steady: controlplane ## Check that a settled operator sends no requests, without other tests beside
	@mkdir -p $(BONGSU_TEST_PERMISSIONS)
	@go run ./hack/test $(TEST_FLAGS) -parallel 1 ./test/chaos/steady

.PHONY: e2e-full
e2e-full: export BONGSU_TEST_SIZE := e2e
e2e-full: controlplane ## Run the tests that make test runs with less, or not at all
	@mkdir -p $(BONGSU_TEST_PERMISSIONS)
	@sized=$$(sh hack/sized.sh) && set -f && go run ./hack/test $(TEST_FLAGS) $$sized

.PHONY: e2e-sequence
e2e-sequence: ## Run 200 random sequences of operations on the alarm path, for three minutes at most (ARGS='-sequence.for=1h -sequence.seeds=0')
	@# make test runs the other tests of this package, and the seeds before this one.
	@go run ./hack/test -timeout 0 ./test/sequence -run '^TestRandomSequencesKeepTheGuarantees$$' \
		-sequence.seed=5 -sequence.seeds=200 -sequence.for=3m $(ARGS)

.PHONY: e2e-controllers
e2e-controllers: controlplane ## Run random sequences of operations on notebooks, apps and shares, and begin none after three minutes (ARGS=-sequence.for=1h)
	@go run ./hack/test -timeout 0 ./test/sequence/controllers -sequence.seeds=0 -sequence.for=3m $(ARGS)

.PHONY: e2e-bench
e2e-bench: export BONGSU_TEST_SIZE := e2e
e2e-bench: controlplane ## Run each benchmark once, the large ones a tenth, to see that it works
	go test -run '^$$' -bench . -benchtime 1x -timeout 20m -p 1 $(BENCH_PKG)

.PHONY: e2e-helm
e2e-helm: controlplane ## Install, upgrade and remove the chart with Helm
	cd test/helm && go test ./...

# The install scripts of code-server need a compiler and downloads. Only its editor needs them.
SERVERS_PACKAGES := jupyter-server memcached
CODE_SERVER      := $(shell sed -n 's|.*/code-server:||p' config/samples/jupyter/code-server.yaml)
# The modules of later versions lack the files of the web page, so that they cannot be built.
ALERTMANAGER     := bin/e2e/alertmanager-0.28.1/alertmanager

$(ALERTMANAGER):
	@echo "Building $@."
	@GOBIN=$(CURDIR)/$(@D) go install github.com/prometheus/alertmanager/cmd/alertmanager@v0.28.1

.PHONY: e2e-servers
e2e-servers: $(ALERTMANAGER) ## Use a real Jupyter server, code-server, Alertmanager and memcached: installs them with Debian's apt, as root, npm and Go
	@! command -v apt-get >/dev/null || dpkg -s $(SERVERS_PACKAGES) >/dev/null 2>&1 || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SERVERS_PACKAGES); }
	@grep -qs '"version": "$(CODE_SERVER)"' bin/e2e/code-server/node_modules/code-server/package.json || \
		npm install --silent --ignore-scripts --no-audit --no-fund --prefix bin/e2e/code-server code-server@$(CODE_SERVER) || \
		echo "npm cannot install code-server: its test is skipped."
	go test -v -count=1 ./test/servers $(ARGS)

.PHONY: e2e-sdk
e2e-sdk: controlplane ## Scaffold operators by the docs, and run their tests
	go test -v -count=1 -timeout 20m ./test/sdk $(ARGS)

.PHONY: e2e-toolkit
e2e-toolkit: ## Use pkg/ in other modules: builds the control plane twice
	go test -v -count=1 -timeout 40m ./test/toolkit $(ARGS)

E2E_PACKAGES := containerd runc iptables iproute2 conntrack containernetworking-plugins
E2E_PLATFORM := linux/$(shell go env GOARCH)
E2E_TAGS     := e2e-1 e2e-2

.PHONY: e2e-node
e2e-node: controlplane node bongsu e2e-images ## Run the operator's image on a real kubelet: needs Linux, root and Debian's apt
	@dpkg -s $(E2E_PACKAGES) >/dev/null 2>&1 || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(E2E_PACKAGES); }
	@for tag in $(E2E_TAGS); do \
		$(MAKE) --no-print-directory image VERSION=$$tag IMAGE=localhost/bongsu:$$tag IMAGE_ARCHIVE=bin/e2e/bongsu-$$tag.tar PLATFORMS=$(E2E_PLATFORM) || exit 1; \
	done
	@mkdir -p $(BONGSU_TEST_PERMISSIONS)
	BONGSU_E2E_NODE=1 BONGSU_E2E_LOGS=$(abspath bin/e2e/logs) go test -v -count=1 -timeout 20m ./test/e2e $(ARGS)

# The time that make soak spends on each kind of random sequences, and their first seed.
SOAK_FOR       ?= 1h
SOAK_SEED      ?= 1
SOAK_PLATFORMS := linux/amd64 linux/arm64 darwin/arm64 windows/amd64

.PHONY: soak
soak: soak-full soak-sequence soak-controllers soak-platforms bench ## Run what takes hours: all seeds, large stores, other platforms, benchmarks with their limits (SOAK_FOR=1h, SOAK_SEED=1)

.PHONY: soak-full
soak-full: export BONGSU_TEST_SIZE := soak
soak-full: controlplane
	@sized=$$(sh hack/sized.sh) && set -f && go run ./hack/test $(TEST_FLAGS) -timeout 3h $$sized

.PHONY: soak-sequence soak-controllers
soak-sequence soak-controllers: soak-%:
	@$(MAKE) --no-print-directory e2e-$* ARGS='-sequence.seed=$(SOAK_SEED) -sequence.seeds=0 -sequence.for=$(SOAK_FOR)'

.PHONY: soak-platforms
soak-platforms:
	@for platform in $(SOAK_PLATFORMS); do \
		echo "Building for $$platform."; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -o /dev/null ./cmd/bongsu && \
		(cd sdk && GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -o /dev/null ./cmd/bongsu-sdk) || exit 1; \
	done
	@for platform in $(filter linux/%,$(SOAK_PLATFORMS)); do \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -o /dev/null ./cmd/bongsu-operator || exit 1; \
	done
