# make test is what CI runs. CONTRIBUTING.md explains each target.
SHELL := bash
FUZZTIME ?= 30s
BENCH ?= .
BENCHCOUNT ?= 1
PACKAGES ?= ./...
TESTFLAGS ?=
# The next Go, whose TLS has ML-DSA and MLKEM1024; what depends on it is tested by it.
GONEXT ?= go1.27.3

.NOTPARALLEL:
.PHONY: build test gotest gopkcs11 gonext vet lint fmt fmt-check vuln peers bench-peers fuzz bench clean

build:
	go build -o pqgw ./cmd/pqgw

test: peers vet fmt-check lint vuln gotest gopkcs11 gonext

gotest:
	scripts/gotest.sh -race -timeout 15m $(TESTFLAGS) $(PACKAGES)

# What only a build with PKCS#11 has, which needs cgo.
gopkcs11:
	go vet -tags pkcs11 ./...
	go test -race -tags pkcs11 ./handshake/pkcs11 ./config

gonext:
	GOTOOLCHAIN=$(GONEXT) go build -o /dev/null ./cmd/pqgw
	GOTOOLCHAIN=$(GONEXT) go test ./handshake ./config ./kms/pqcert

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
