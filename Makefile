# make test is what CI runs. CONTRIBUTING.md explains each target.
SHELL := bash
FUZZTIME ?= 30s
BENCH ?= .
BENCHCOUNT ?= 1
PACKAGES ?= ./...
TESTFLAGS ?=

.NOTPARALLEL:
.PHONY: build test gotest vet lint fmt fmt-check vuln peers bench-peers fuzz bench clean

build:
	go build -o pqgw ./cmd/pqgw

test: peers vet fmt-check lint vuln gotest

gotest:
	go test -race -timeout 15m $(TESTFLAGS) $(PACKAGES)

vet:
	go vet ./...

lint:
	scripts/lint.sh

fmt:
	scripts/fmt.sh --write

fmt-check:
	scripts/fmt.sh

vuln:
	scripts/vuln.sh

peers:
	scripts/peers.sh

bench-peers:
	scripts/peers.sh --bench

fuzz:
	scripts/fuzz.sh $(FUZZTIME) $(PACKAGES)

bench:
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) $(PACKAGES)

clean:
	rm -f pqgw
