# Needs Go, make and git, and nothing else. Heavy steps keep every core busy on
# their own, so that targets never run side by side.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Everything is pure Go. Binaries and tests use the same flags, so that they share
# the build cache. Without debug information, which the linker drops anyway, the
# compiler needs a seventh less time. LDFLAGS sets the version, so Go need not ask
# git. A go.work file of the user is not part of this build.
export CGO_ENABLED := 0
export GOWORK      := off
export GOFLAGS     := $(strip $(shell go env GOFLAGS) -trimpath -buildvcs=false -gcflags=all=-dwarf=false)

MODULE  := $(shell go list -m)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)

# Tests on a control plane wait more than they compute, so more of them run at a time
# than a small machine has cores. Most packages start a control plane, of 300 MB or more.
# Without symbols, the linker needs a fifth less time. make lint vets tests too.
TEST_FLAGS ?= -timeout 20m -p 3 -parallel 4 -ldflags=-s -vet=off
# The packages of make test-e2e; all others are those of make test.
E2E_PKG    := ./internal/cli/demo ./test/chaos ./test/cookbook ./test/guide
E2E_OTHER  := ./test/chaos/steady ./test/e2e ./test/sequence/controllers ./test/sdk ./test/servers ./test/toolkit
# The packages with concurrent code that unit tests run. To compile the others for the race
# detector takes minutes.
RACE_PKG   ?= $(addprefix ./internal/,alarm/... budget cli/watch controller/... explain kube/... operator/... policies/... testing/...) ./pkg/... ./test/sequence
# go test begins packages in this order. The slowest are first, so that none of them runs alone at the end.
PKG        ?= $(filter-out $(shell go list $(E2E_PKG) $(E2E_OTHER)),$(shell go list ./internal/controller/... ./internal/alarm/pipeline ./...))
# An operator made by bongsu-sdk, which make test skips if you choose packages.
SAMPLE     := samples/memcached-operator
BENCH      ?= .
BENCH_PKG   = $(shell grep -rl --include='*_test.go' '^func Benchmark' internal pkg test | xargs -n1 dirname | sort -u | sed 's|^|./|')
FUZZTIME   ?= 10s

# The linker flags of both binaries.
LDFLAGS := -s -w -X $(MODULE)/internal/version.stamp=$(VERSION)

include controlplane/build.mk
include hack/tools.mk
include hack/image/build.mk
include test/e2e/e2e.mk

##@ Use

.PHONY: run
run: build ## Build everything, then show alarms from a real API server in this terminal (ARGS=... adds flags)
	bin/bongsu local --demo $(ARGS)

.PHONY: build
build: controlplane bongsu ## Build bin/bongsu, bin/bongsu-operator and bin/k8s/, which takes minutes the first time

.PHONY: bongsu
bongsu:
	@for command in bongsu bongsu-operator; do \
		echo "Building bin/$$command."; \
		sh controlplane/gobuild.sh bin/$$command ./cmd/$$command -ldflags '$(LDFLAGS)' || exit 1; \
	done

.PHONY: build-sdk
build-sdk: ## Build bin/bongsu-sdk, which scaffolds operators
	@echo "Building bin/bongsu-sdk."
	@cd sdk && sh ../controlplane/gobuild.sh ../bin/bongsu-sdk ./cmd/bongsu-sdk -ldflags '-s -w'

.PHONY: download
download: ## Download the dependencies of every module, with retries; without it, each build downloads what it needs
	@sh hack/download.sh

##@ Develop

# These record the requests of the operator, for make permissions.
test e2e-full e2e-cluster e2e-steady e2e-node: export BONGSU_TEST_PERMISSIONS := $(CURDIR)/bin/permissions

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane (PKG=./internal/alarm/... for some)
	@go run ./hack/test -short $(PKG)

.PHONY: test
test: controlplane ## Run what a change needs before review: all tests but those of make test-e2e (PKG=./internal/alarm/... for some, COUNT=10 to repeat them)
	@mkdir -p $(BONGSU_TEST_PERMISSIONS)
	go build ./...
	cd controlplane && go test -count=1 ./internal/... # it reads files of another module, which its cache ignores
	cd hack/image && go test ./...
	cd sdk && go test ./...
	$(if $(filter file,$(origin PKG)),cd $(SAMPLE) && go build ./... && go vet ./... && BONGSU_ASSETS=$(CURDIR)/bin/k8s go test ./...)
	@go run ./hack/test $(TEST_FLAGS) $(if $(COUNT),-count=$(COUNT)) $(PKG)

.PHONY: test-e2e
test-e2e: e2e-full e2e-cluster e2e-steady e2e-sequence e2e-controllers e2e-bench e2e-helm e2e-sdk e2e-servers e2e-toolkit e2e-node ## Run the parts below, from random sequences to a real node: needs Linux, root and Debian's apt

.PHONY: permissions
permissions: ## List the permissions that no test uses, after make test: make clean first if roles have changed
	go run ./test/permissions bin/permissions

# The race detector makes SQLite and CEL ten times as slow, so it does not look at their code.
RACE_SKIPPED := modernc.org/... github.com/google/cel-go/...

.PHONY: race
race: export CGO_ENABLED := 1
race: ## Run the unit tests of concurrent packages under the race detector: needs a C compiler
	@go run ./hack/test -short -race -timeout 20m $(patsubst %,-gcflags='%=-dwarf=false -race=false',$(RACE_SKIPPED)) $(RACE_PKG)

.PHONY: mutants
mutants: controlplane ## Apply each mutant and check that its tests fail (ARGS='-run NAME -v' for some)
	go run ./test/mutants $(ARGS)

.PHONY: bench
bench: controlplane ## Measure, in Go's benchmark format (BENCH=Match for some); see benchstat
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m -p 1 $(BENCH_PKG)

.PHONY: fuzz
fuzz: ## Run each fuzz target for a short while (FUZZTIME=10s)
	@sh hack/fuzz.sh $(FUZZTIME)

# The packages whose RBAC markers make up the role of every replica, and the role of
# each feature. An installation has the roles of the features that it enables.
RBAC_common      := internal/operator internal/kube pkg/events
RBAC_alarm       := internal/controller/alarms internal/controller/receivers internal/alarm/enrich internal/alarm/source internal/alarm/checkpoint
RBAC_alarm-secrets := internal/alarm/receiver
RBAC_secretshare := internal/controller/secretshare
RBAC_jupyter     := internal/controller/jupyter internal/explain internal/alarm/source
RBAC_appservice  := internal/controller/appservice internal/explain internal/alarm/source
RBAC_appservice-exec  := pkg/podexec
RBAC_appservice-proxy := pkg/healthcheck
ROLES            := common alarm alarm-secrets secretshare jupyter appservice appservice-exec appservice-proxy
role_name         = $(if $(filter common,$1),bongsu,bongsu-$1)

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate deep copies, CRDs, roles, the kustomize base, docs/reference
	$(CONTROLLER_GEN) object paths=./api/...
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd
	go run ./hack/trimcrd config/crd
	$(foreach role,$(ROLES),$(CONTROLLER_GEN) rbac:roleName=$(call role_name,$(role)),fileName=role-$(role).yaml \
		$(patsubst %,paths=./%,$(RBAC_$(role))) output:rbac:dir=config/rbac &&) true
	go run ./hack/manifests
	go run ./hack/reference $(foreach role,$(ROLES),$(patsubst %,$(role)=%,$(RBAC_$(role))))

.PHONY: pictures
pictures: build ## Make docs/pictures again, from runs on the embedded cluster: needs Chromium
	go run ./hack/pictures docs/pictures

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Lint, by the rules of .golangci.yaml: the first time builds the linter, which takes minutes
	$(GOLANGCI_LINT) run
	cd sdk && ../$(GOLANGCI_LINT) run
	cd $(SAMPLE) && ../../$(GOLANGCI_LINT) run

# The percentage of the arrows between the files of a package that may be uphill. Lower it when
# you can, and do not raise it: the aim is 15.
UPHILL ?= 15

.PHONY: arrows
arrows: ## Count the uses of a file by the files below it, in each package of internal/alarm (ARGS=-v lists them)
	@go run ./hack/arrows $(ARGS) -max $(UPHILL) internal/alarm

.PHONY: verify
verify: ## Check what a change must hold: generated files, formatting, go.mod, mutants, uphill arrows, links, alert rules, language, lint
	@sh hack/verify-generated.sh
	@unformatted=$$(gofmt -l .); \
		[ -z "$$unformatted" ] || { echo "not formatted by gofmt:" $$unformatted; exit 1; }
	go mod tidy -diff
	cd controlplane && go mod tidy -diff
	@sh hack/verify-shared-modules.sh
	cd hack/image && go mod tidy -diff
	cd sdk && go mod tidy -diff
	cd $(SAMPLE) && go mod tidy -diff
	cd test/helm && go mod tidy -diff
	cd test/alerts && go mod tidy -diff && go test ./...
	go run ./test/mutants -check
	@$(MAKE) --no-print-directory arrows
	go test ./test/docs/...
	@$(MAKE) --no-print-directory lint

.PHONY: check-all
check-all: ## Run everything that checks the project, to its end, and print a table: takes an hour and more
	@bash hack/check.sh download build test e2e-full e2e-cluster e2e-steady e2e-sequence e2e-controllers e2e-bench e2e-helm e2e-sdk e2e-servers e2e-toolkit e2e-node permissions verify race mutants

.PHONY: clean
clean: ## Remove what was built (go clean -cache empties Go's own cache)
	rm -rf bin

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
