# Everything that is done to this repository, by hand or in CI: `make help` lists it.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# What is generated is linted and tested after it.
.NOTPARALLEL:

# The images that `make images` builds and `make install` deploys.
IMG ?= lockstep-manager:dev
AGENT_IMG ?= lockstep-health-agent:dev
SUPERVISOR_IMG ?= lockstep-run:dev
# What they are built with; the agent's base has DCGM's library in it, and has to be named.
GO_IMAGE ?= golang:$(shell sed -n 's/^go //p' go.mod)
DCGM_IMAGE ?=
# What `make archives` builds for: the agent links C, and needs a cross compiler for another architecture than this machine's. DCGM is
# the folder of the libdcgm.so.4 to put into the agent's image; without it the nodes' is mounted.
ARCHITECTURES ?= amd64,arm64
AGENT_ARCHITECTURES ?= $(shell go env GOARCH)
DCGM ?=
DOCKER ?= docker
KUBECTL ?= kubectl
# The address of the folder that `make plugin` is uploaded to.
PLUGIN_URL ?=
# One version for all that is built of a commit: its tag. Go puts that into the programs, and `make chart` into the chart.
VERSION := $(shell git describe --tags --exact-match --match 'v*' 2>/dev/null)
# What `make install` applies: a folder of config/samples says where DCGM is otherwise, and
# config/alerts adds the receiver of Alertmanager, and config/supervisors the stream of supervisors. A folder of your own has them together.
CONFIG ?= config/default
# How long one package may take.
TEST_TIMEOUT ?= 30m
E2E_TIMEOUT ?= 40m
REAL_TIMEOUT ?= 60m
# How often a gang recovers in each case of test-real in which other jobs wait for its nodes.
RECOVERIES ?= 1
# How often a gang hangs in each way and has a slow rank in test-real, and the flag that writes what was seen into files: only test-full does.
HANGS ?= 1
HANGS_RECORD ?=
# The tests of test/real that test-real leaves to test-full: those that wait for minutes, and those whose disturbance another test has as well.
REAL_SKIP ?= TestFourCrashesInARow|Test(Torchrun|MPI)ResumesAfterAKilledNode|TestAStraggler|TestTwoNodesAtOnce|TestAFrozenNodeThatThaws|TestASandboxThatFails|TestTheManagerIsKilled|TestALostNodeUnderASupervisor|TestTorchrunUnderASupervisor|TestAFrozenNodeUnderASupervisor|TestSupervisorsThatMayNotReach|TestTheManagerRunsFromItsImage
# Which tests of installations test-real runs; test-full runs the one by kubectl, too.
INSTALLATIONS ?= TestTheChart
# Random histories of test-sim.
HISTORIES ?= 100000
# How often make test-again runs make test.
RUNS ?= 5
# Parts of test-million.
PARTS ?= 0 1 2 3 4 5 6 7 8 9
# Nodes of test-week.
NODES ?= 5000

# Flags of release; `go run ./release -h` lists them.
RELEASE ?=
# The folder of check-release.
DIR ?=

# Flags of cluster-up, such as CLUSTER='--tiers 3'; `go run ./test/cluster/cmd up -h` lists them.
CLUSTER ?=
# Flags of bench, such as BENCH='-sizes=4 -kept=0 -health=0 -supervised=0 -fleet= -readme='; `go run ./test/bench -h` lists them.
BENCH ?=

# Tools are built once from the modules that pin them, out of the way of the product's own go.mod.
TOOLS := $(CURDIR)/.cache/tools
CONTROLLER_GEN := $(TOOLS)/controller-gen
GOLANGCI_LINT := $(TOOLS)/golangci-lint
HELM := $(TOOLS)/helm
HELM_DOCS := $(TOOLS)/helm-docs
CRD_REF_DOCS := $(TOOLS)/crd-ref-docs
ACTIONLINT := $(TOOLS)/actionlint
PROTOBUF := $(TOOLS)/protobuf
# Folders of the chart's templates that `make manifests` renders into config, and those of them that need a value.
RENDERED := manager rbac agent policy
OPTIONAL := alerts/receiver kueue/workloads networkpolicy nvsentinel/drainer prometheus supervisors/server
# What `make generate manifests` writes.
GENERATED := charts config/grafana $(RENDERED:%=config/%) $(OPTIONAL:%=config/%) config/crd api/reference.md ':(glob)api/**/zz_generated.*.go' supervisor/wire
MODULES = $(patsubst %/go.mod,%,$(shell git ls-files -- go.mod '*/go.mod' | sed 's|^go.mod$$|./go.mod|'))
# The CHANGELOG, and the pages that programs write; charts/lockstep/README.md is made of values.yaml and the template beside it, whose
# prose counts. The pages that people write have so many words at most.
WRITTEN := CHANGELOG.md api/reference.md charts/lockstep/README.md health/table.md test/chaos/contract.md test/mutation/record.md test/signals/table.md
MAX_WORDS := 50000
# The race detector links C; without a C compiler, of which go knows, the tests run all the same.
RACE = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

.PHONY: help
help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: prereqs
prereqs:
	@command -v git >/dev/null || { echo "git is needed, and is not in PATH" >&2; exit 1; }
	@command -v go >/dev/null || { echo "$$(sed -n 's/^go /Go /p' go.mod) or newer is needed, and no go is in PATH: https://go.dev/dl/" >&2; exit 1; }
	@go list -m >/dev/null || { echo "$$(sed -n 's/^go /Go /p' go.mod) or newer is needed; this is $$(go env GOVERSION)" >&2; exit 1; }

.PHONY: prereqs-kubectl
prereqs-kubectl:
	@command -v $(KUBECTL) >/dev/null || { echo "kubectl is needed, and is not in PATH: https://kubernetes.io/docs/tasks/tools/" >&2; exit 1; }

$(CONTROLLER_GEN): .ci/tools/go.mod .ci/tools/go.sum | prereqs
	go build -C .ci/tools -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(GOLANGCI_LINT): .ci/lint/go.mod .ci/lint/go.sum | prereqs
	@echo "building the linter: some minutes, once"
	go build -C .ci/lint -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(PROTOBUF): .ci/protobuf/main.go .ci/protobuf/go.mod .ci/protobuf/go.sum | prereqs
	go build -C .ci/protobuf -o $@ .
	go build -C .ci/protobuf -o $(TOOLS)/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

.PHONY: generate
generate: $(CONTROLLER_GEN) $(PROTOBUF) ## write the types' deep copies, and the wire of the supervisors
	$(CONTROLLER_GEN) object paths=./api/... paths=./controllers/kueue
	$(PROTOBUF) -plugins=$(TOOLS)/protoc-gen-go,$(TOOLS)/protoc-gen-go-grpc supervisor/wire/supervision.proto

$(HELM): test/cluster/binaries/helm/go.mod test/cluster/binaries/helm/go.sum | prereqs
	go build -C test/cluster/binaries/helm -o $@ helm.sh/helm/v3/cmd/helm

$(HELM_DOCS): .ci/helm-docs/go.mod .ci/helm-docs/go.sum | prereqs
	go build -C .ci/helm-docs -o $@ github.com/norwoodj/helm-docs/cmd/helm-docs

$(CRD_REF_DOCS): .ci/crd-ref-docs/go.mod .ci/crd-ref-docs/go.sum | prereqs
	go build -C .ci/crd-ref-docs -o $@ github.com/elastic/crd-ref-docs

$(ACTIONLINT): .ci/actionlint/go.mod .ci/actionlint/go.sum | prereqs
	go build -C .ci/actionlint -o $@ github.com/rhysd/actionlint/cmd/actionlint

.PHONY: manifests
manifests: $(CONTROLLER_GEN) $(HELM) $(HELM_DOCS) $(CRD_REF_DOCS) ## write the CRD, api/reference.md and the manager's role from the code, config from the chart, and the dashboards
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:artifacts:config=config/crd
	@# No marker bounds a list of a core type, and the API server refuses a rule over a list without a bound, for its cost.
	sed -i '/^ *tolerations:$$/,/x-kubernetes-list-type/ s/^\( *\)type: array$$/\1maxItems: 256\n&/' config/crd/lockstep.dev_trainingjobs.yaml
	$(CONTROLLER_GEN) rbac:roleName=lockstep-manager paths=./controllers/... paths=./health/alerts/... output:rbac:artifacts:config=config/rbac
	@rendered="$$(mktemp -d)" && trap 'rm -rf "$$rendered"' EXIT && \
	render() { $(HELM) template lockstep charts/lockstep --namespace lockstep-system --kube-version 1.33 --values config/values.yaml \
	  --output-dir "$$rendered/$$1" "$${@:2}" >/dev/null 2> >(grep -v 'found symbolic link' >&2); } && \
	render default && render optional --set alerts.enabled=true,supervisors.enabled=true,networkPolicy.enabled=true,monitoring.podMonitors=true,nvsentinel.drainRequests.enabled=true,kueue.enabled=true && \
	for dir in $(RENDERED); do cp "$$rendered/default/lockstep/templates/$$dir"/* config/$$dir; done && \
	for dir in $(OPTIONAL); do cp "$$rendered/optional/lockstep/templates/$$dir"/* config/$$dir; done
	go run ./config/grafana/generate -dir config/grafana
	$(CRD_REF_DOCS) --source-path=api --renderer=markdown --config=.ci/crd-ref-docs/config.yaml --templates-dir=.ci/crd-ref-docs/templates \
	  --log-level=ERROR --output-path=api/reference.md && sed -i '/./,/^$$/!d' api/reference.md # of empty lines, one of each run
	$(HELM_DOCS) --chart-search-root charts --sort-values-order file --log-level warning

.PHONY: lint
lint: $(GOLANGCI_LINT) $(ACTIONLINT) ## run the linters, import rules among them
	$(GOLANGCI_LINT) run ./...
	$(ACTIONLINT) .github/workflows/ci.yaml

.PHONY: words
words: ## count the words of the pages that people write: MAX_WORDS at most
	@words="$$(git ls-files -z '*.md' '*.md.gotmpl' | grep -zvxF $(WRITTEN:%=-e %) | xargs -0 cat | wc -w)"; \
	echo "$$words words in pages that people write; $(MAX_WORDS) at most"; [ "$$words" -le $(MAX_WORDS) ]

.PHONY: verify
verify: words generate manifests lint ## check that what is generated is committed, modules are tidy, pages are short and the code is clean
	@stale="$$(git status --porcelain --untracked-files=all -- $(GENERATED))" || exit 1; \
	if [ -n "$$stale" ]; then \
	  echo "generated files are not as committed: run 'make generate manifests' and commit them" >&2; \
	  echo "$$stale" >&2; git --no-pager diff --stat -- $(GENERATED) >&2; exit 1; \
	fi
	@for dir in $(MODULES); do \
	  echo "go mod tidy -diff in $$dir"; \
	  (cd $$dir && go mod tidy -diff) || { echo "$$dir/go.mod is not tidy: run 'go mod tidy' there" >&2; exit 1; }; \
	done
	go vet ./...

BUILD_MANAGER = CGO_ENABLED=0 go build -trimpath -buildvcs=auto -tags grpcnotrace -o bin/manager ./cmd/manager

.PHONY: build
build: prereqs ## build bin/manager, bin/kubectl-lockstep, bin/lockstep-run and bin/health-agent (which reaches DCGM where there is a C compiler)
	$(BUILD_MANAGER)
	CGO_ENABLED=0 go build -trimpath -buildvcs=auto -o bin/kubectl-lockstep ./cmd/kubectl-lockstep
	CGO_ENABLED=0 go build -trimpath -buildvcs=auto -o bin/lockstep-run ./cmd/lockstep-run
	go build -trimpath -buildvcs=auto -o bin/health-agent ./cmd/health-agent

.PHONY: test
test: prereqs cluster-binaries ## run every test that needs no root: with the race detector all that has goroutines, then e2e on a real control plane
	go test -count=1 $(RACE) -shuffle=on -timeout=$(TEST_TIMEOUT) $(CONCURRENT)
	@$(MAKE) --no-print-directory test-decisions test-e2e

# The packages of make test that have goroutines, and of which e2e is no part.
CONCURRENT = $$(go list ./... | grep -v -e '/test/e2e' -e '/test/real' -e '/test/simulation' -e '/policies' -e '/lab$$')

.PHONY: test-decisions
test-decisions: prereqs ## run the tests of decisions: they have no goroutines, and Go keeps the results of what has not changed
	go test -timeout=$(TEST_TIMEOUT) ./policies/... ./lab ./test/simulation

.PHONY: test-ahead
test-ahead: test-decisions ## do what of make test waits for no cluster: decisions, and the builds of all other tests
	go test -c -o /dev/null $(RACE) $(CONCURRENT)
	go test -c -o /dev/null ./test/e2e/...

.PHONY: test-again
test-again: prereqs cluster-binaries ## run make test RUNS times beside test-million, and write what passed into test/again/again.json: hours
	go run ./test/again -runs=$(RUNS)

.PHONY: test-sim
test-sim: prereqs ## run 100000 random histories of the recovery engine; SEED=n replays one
	go test ./test/simulation -count=1 -v -timeout=60m -run 'TestHistories$$' -histories=$(HISTORIES) $(if $(SEED),-seed=$(SEED))

.PHONY: test-million
test-million: prereqs ## run 1000000 random histories in ten parts, and list those that pass in test/simulation/histories.json: hours; PARTS="3 4" plays these
	for part in $(PARTS); do \
	  go test ./test/simulation -count=1 -v -timeout=12h -run 'TestHistories$$' -histories=100000 -from=$$((1000000 + part * 100000)) -record=histories.json || exit 1; \
	done

.PHONY: differential
differential: prereqs ## play random histories with the engine of the commit in test/differential/differences.yaml, and with this one: 25 minutes; BASE=commit, HISTORIES=n
	go run ./test/differential -histories=$(HISTORIES) $(if $(BASE),-base=$(BASE))

.PHONY: test-week
test-week: prereqs ## play a week of 5000 healthy nodes, NODES=n of another number: nothing may be found unhealthy
	go test ./health -count=1 -v -timeout=12h -run 'TestAHealthyWeek$$' -week.nodes=$(NODES)

.PHONY: test-steps
test-steps: prereqs ## count the steps of 1000 jobs for a week, 200 of which hang, and write how many stalls were seen and false into supervisor/steps/week.json: 2 minutes
	go test ./supervisor/steps -count=1 -v -timeout=1h -run 'TestAWeekOfSteps$$' -jobs=1000 -week-json=week.json

.PHONY: cluster-binaries
cluster-binaries: prereqs
	@go run ./test/cluster/cmd build >/dev/null # its progress goes to stderr

.PHONY: test-e2e
test-e2e: prereqs cluster-binaries ## run the end-to-end tests
	go test -count=1 -shuffle=on -parallel=12 -timeout=$(E2E_TIMEOUT) ./test/e2e/...

.PHONY: questions
questions: prereqs cluster-binaries ## write anew the clusters of which TestQuestions asks the plugin, from moments of the end-to-end tests: 5 minutes
	go test -count=1 -parallel=1 -timeout=30m -snapshots=$(CURDIR)/cmd/kubectl-lockstep/testdata/questions ./test/e2e -run 'TestWhy|TestAMissingQueue|TestHomeFullWaits|TestSpareIsUsedFirst|TestFailedNodeIsKept|TestBreakerStops|TestBudgetExhausted|TestDryRun|TestUnreachableNode|TestTheMapShowsAHeldNode'

.PHONY: test-abort
test-abort: prereqs cluster-binaries ## have gangs of 4, 40 and 400 ranks abort, and write what came of it into test/e2e/abort.json
	go test -count=1 -v -parallel=1 -timeout=$(E2E_TIMEOUT) -run 'TestALargeGangAborts$$' ./test/e2e -abort.sizes=4,40,400 -abort.json=abort.json

.PHONY: test-storage
test-storage: prereqs cluster-binaries ## take the storage of gangs away for 10 and for 30 minutes, and write what came of it into test/e2e/storage.json; 35 minutes
	go test -count=1 -v -parallel=4 -timeout=60m -run 'TestStorageIsGone$$' ./test/e2e -storage.gone=10m,30m -storage.json=storage.json

.PHONY: test-tenants
test-tenants: prereqs cluster-binaries ## attack the manager as a user of one namespace for ten minutes, and write what it keeps into test/tenants/tenants.json; 25 minutes
	go test -count=1 -v -timeout=$(E2E_TIMEOUT) -run 'TestAHostileTenant$$' ./test/tenants -tenants.attack=10m -tenants.json=tenants.json

.PHONY: test-contract
test-contract: prereqs cluster-binaries ## strike each write of the manager by each fault, refused for each reason, and write where into test/chaos/contract.md
	go test -count=1 -timeout=$(E2E_TIMEOUT) ./test/chaos -contract.table=contract.md

.PHONY: test-late
test-late: prereqs cluster-binaries ## restart a gang whose supervisors and manager hear each other up to a minute late: 10 minutes
	go test -count=1 -v -timeout=$(E2E_TIMEOUT) -run 'TestMessagesAreLate$$' ./test/chaos -late=60s

.PHONY: prereqs-real
prereqs-real:
	@test/real/prepare

.PHONY: node-binaries
node-binaries: prereqs
	@go run ./test/cluster/cmd build --real >/dev/null # its progress goes to stderr

.PHONY: test-real
test-real: prereqs prereqs-real cluster-binaries node-binaries ## as root: run real gangs on real kubelets, and break them; 45 minutes
	go test -count=1 -v -timeout=$(REAL_TIMEOUT) -skip '$(REAL_SKIP)' ./test/real -recoveries=$(RECOVERIES) -hangs=$(HANGS) $(HANGS_RECORD)
	go test -count=1 -v ./test/workloads/torchrun # the documented commands, by the torch that prereqs-real installs
	go test -count=1 -v -timeout=$(REAL_TIMEOUT) -run '$(INSTALLATIONS)' ./test/real/install # install, upgrade, downgrade and uninstall by the commands of docs/operators.md

.PHONY: test-full
test-full: RECOVERIES = 10
test-full: HANGS = 10
test-full: HANGS_RECORD = -record=.
test-full: REAL_TIMEOUT = 3h
test-full: INSTALLATIONS = .
test-full: REAL_SKIP = ^$$
test-full: test test-contract test-late test-real test-sim test-mutations test-week test-steps ## everything that checks the product: hours

.PHONY: test-mutations
test-mutations: prereqs ## take the fix of each defect in test/mutation/record.md out again, and write which test failed into record.json; 45 minutes
	go run ./test/mutation -json test/mutation/record.json

.PHONY: bench
bench: prereqs cluster-binaries ## measure recoveries beside Volcano's own, reports of unhealthy nodes, restarts of programs, and fleets, for docs/benchmarks.md: 80 minutes
	go run ./test/bench -readme=docs/benchmarks.md $(BENCH)
	go run ./test/bench -sizes= -kept=0 -health=0 -supervised=0 -fleet=100,1000 -fleet-sharing=4 -fleet-for=5m -readme=docs/benchmarks.md # 20 GiB

.PHONY: bench-real
bench-real: prereqs prereqs-real cluster-binaries node-binaries ## as root: measure what killed nodes and programs cost real training, for docs/benchmarks.md: an hour
	go run ./test/real/bench -readme=docs/benchmarks.md $(BENCH)

.PHONY: test-takeovers
test-takeovers: prereqs prereqs-real cluster-binaries node-binaries ## as root: have gangs lose ten nodes, with spares that take over and without, for docs/benchmarks.md, and write each into test/real/takeovers.json: 20 minutes
	go run ./test/real/bench -kills=0 -runs=0 -readme=docs/benchmarks.md -record=test/real/takeovers.json $(BENCH)

.PHONY: test-restores
test-restores: prereqs prereqs-real cluster-binaries node-binaries ## as root: have ranks resume from checkpoints of 1 GiB in memory, on their node and in shared storage, and write how long that takes into test/real/restores.json: half an hour
	go test -count=1 -v -timeout=$(E2E_TIMEOUT) -run 'TestRanksResumeFromTheirNearestCopy$$' ./test/real -restores=3 -checkpoint.mib=1024 -record=.

.PHONY: test-moves
test-moves: prereqs prereqs-real cluster-binaries node-binaries ## as root: move healthy ranks of a gang of 24 by migrate, a degraded link, a drain and a DrainRequest, and write each move into test/real/moves.json: 7 minutes
	go run ./test/real/bench -kills=0 -runs=0 -losses=0 -moves=3 -moves-record=test/real/moves.json $(BENCH)

.PHONY: agreement
agreement: prereqs prereqs-real cluster-binaries node-binaries ## as root: compare the policy lab with 22 incidents, for docs/benchmarks.md: 15 minutes
	go run ./test/agreement -readme=docs/benchmarks.md

.PHONY: cluster-up
cluster-up: prereqs ## start a test cluster on this machine, without containers
	go run ./test/cluster/cmd up --detach $(CLUSTER)

.PHONY: cluster-down
cluster-down: prereqs ## stop the cluster of cluster-up; that of demo ends with Ctrl-C in its terminal
	go run ./test/cluster/cmd down

.PHONY: gains
gains: prereqs ## play jobs of three sizes in the policy lab, and write the gains of policies into docs/benchmarks.md; 7 minutes
	go run ./test/gains

.PHONY: demo
demo: prereqs ## show a gang fall together, lose a node and come back in its rack; KEEP=1 keeps the cluster
	@test -e bin/manager || echo "The first time this takes 15 minutes on two cores: first the manager and the demo are built, then the 7 programs of a control plane."
	$(BUILD_MANAGER)
	CGO_ENABLED=0 go build -trimpath -o bin/trainer ./test/workloads/trainer
	go run ./test/demo

.PHONY: demo-real
demo-real: prereqs prereqs-real cluster-binaries node-binaries ## as root: show a real training program fall and resume on real kubelets; KEEP=1 keeps the cluster
	go run ./test/real/demo

.PHONY: run
run: prereqs ## run the manager on this machine, against the cluster of $KUBECONFIG
	go run ./cmd/manager

.PHONY: images
images: ## build the images IMG, SUPERVISOR_IMG and AGENT_IMG, this one on DCGM_IMAGE, with $(DOCKER)
	@test -n "$(DCGM_IMAGE)" || { echo "DCGM_IMAGE is not set: config/agent/README.md says which image it may be" >&2; exit 1; }
	$(DOCKER) build -t $(IMG) -f cmd/manager/Dockerfile --build-arg GO_IMAGE=$(GO_IMAGE) .
	$(DOCKER) build -t $(SUPERVISOR_IMG) -f cmd/lockstep-run/Dockerfile --build-arg GO_IMAGE=$(GO_IMAGE) .
	$(DOCKER) build -t $(AGENT_IMG) -f cmd/health-agent/Dockerfile --build-arg GO_IMAGE=$(GO_IMAGE) --build-arg DCGM_IMAGE=$(DCGM_IMAGE) .

.PHONY: archives
archives: prereqs ## write the images IMG, SUPERVISOR_IMG and AGENT_IMG as OCI archives into bin/images, without a container engine; DCGM=folder of its library
	go run ./images/build -dir bin/images -manager $(IMG) -supervisor $(SUPERVISOR_IMG) -agent $(AGENT_IMG) \
	  -architectures $(ARCHITECTURES) -agent-architectures $(AGENT_ARCHITECTURES) $(if $(DCGM),-dcgm $(DCGM))

.PHONY: plugin
plugin: prereqs ## pack kubectl-lockstep for Linux, macOS and Windows into bin/plugin, 5 minutes; PLUGIN_URL=https://... writes krew's manifest, too
	rm -rf bin/plugin # what an earlier run has left would be in the checksums
	go run ./release -plugin -dir bin/plugin -url '$(PLUGIN_URL)'

.PHONY: chart
chart: $(HELM) ## pack the Helm chart into bin
	$(HELM) package charts/lockstep --destination bin $(if $(VERSION),--version $(VERSION:v%=%) --app-version $(VERSION)) 2> >(grep -v 'found symbolic link' >&2)

.PHONY: release
release: prereqs $(HELM) ## write what is published of the commit's tag into bin/release, the same bytes each time: images, chart, manifests, plugin, notes, SHA256SUMS; RELEASE='-registry=... -url=...'
	go run ./release -helm $(HELM) $(RELEASE)

.PHONY: check-release
check-release: prereqs ## check that the files in DIR are those that its SHA256SUMS lists: make check-release DIR=bin/release/v1.2.0
	@test -n "$(DIR)" || { echo "DIR is not set: it is the folder of a release" >&2; exit 1; }
	@go run ./release -check '$(DIR)'

.PHONY: test-release
test-release: prereqs $(HELM) ## write a release of this commit twice, in two places, and compare the bytes
	go test -count=1 -timeout=$(E2E_TIMEOUT) -v -run TestAReleaseIsTheSameTwice ./release -whole

.PHONY: prereqs-images
prereqs-images: prereqs-kubectl
	@[[ "$(origin IMG) $(origin AGENT_IMG)" != *file* ]] || \
	  { echo "set IMG and AGENT_IMG to the images in your registry: docs/operators.md says how they are built" >&2; exit 1; }
	@[[ "$(origin SUPERVISOR_IMG)" != file || "$$($(KUBECTL) kustomize $(CONFIG))" != *--supervisor-image=lockstep-run:dev* ]] || \
	  { echo "set SUPERVISOR_IMG to the image of lockstep-run in your registry: $(CONFIG) turns supervisors on" >&2; exit 1; }

.PHONY: install
install: prereqs-images ## install CRDs, roles, manager (image IMG) and health agent (AGENT_IMG) in the cluster of $KUBECONFIG
	$(KUBECTL) kustomize $(CONFIG) \
	  | sed -e 's|image: lockstep-manager:dev$$|image: $(IMG)|' -e 's|image: lockstep-health-agent:dev$$|image: $(AGENT_IMG)|' \
	    -e 's|--supervisor-image=lockstep-run:dev$$|--supervisor-image=$(SUPERVISOR_IMG)|' \
	  | $(KUBECTL) apply --server-side -f -

.PHONY: uninstall
uninstall: prereqs-kubectl ## delete every TrainingJob, then all that install applied
	@# Jobs first, while the manager still runs to free the nodes that it holds for them.
	if $(KUBECTL) get crd trainingjobs.lockstep.dev >/dev/null 2>&1; then \
	  $(KUBECTL) delete trainingjobs --all --all-namespaces --wait; fi
	@# Then what is known of the nodes, so that it takes its taints and conditions away.
	if $(KUBECTL) get crd nodehealths.lockstep.dev >/dev/null 2>&1; then \
	  $(KUBECTL) -n lockstep-health delete daemonset lockstep-health-agent --ignore-not-found --wait && \
	  $(KUBECTL) delete healthpolicies --all && $(KUBECTL) delete nodehealths --all; fi
	@echo "waiting until the manager has freed every node"
	while [[ "$$($(KUBECTL) get nodes,hypernodes -o jsonpath='{.items[*].spec.taints[*].key} {.items[*].status.conditions[*].type}')" == *lockstep.dev/* ]]; do sleep 1; done
	$(KUBECTL) kustomize $(CONFIG) | $(KUBECTL) delete --ignore-not-found -f -
