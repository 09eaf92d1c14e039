# Builds and installs the C library, for Linux: shared and static, headers, pkg-config file, CMake package.
#
#   make                        builds it in $(BUILD)
#   make install PREFIX=/usr    copies what `make` built; needs no cargo
#
# cargo compiles the library and zstd. All of it becomes one object, in which only the public names stay global. Both
# libraries are made from this object. docs/building.md describes the variables.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
# Cargo features, such as `cpu,rocm`. Empty: the default ones of Cargo.toml.
FEATURES ?=
CARGO ?= cargo
CARGO_FLAGS ?= --locked
OBJCOPY ?= objcopy
BUILD ?= target/c
# The folder of a libcandle_rocm.a that cargo has built already. Empty: `make` runs cargo.
CANDLE_ROCM_LIB ?=

VERSION := $(shell sed -n 's/^.define CRK_VERSION_[A-Z]* //p' include/candle_rocm/status.h | paste -sd. -)
# The number in the soname. Before 1.0 a minor version may change the interface.
ABI := $(if $(filter 0.%,$(VERSION)),$(basename $(VERSION)),$(firstword $(subst ., ,$(VERSION))))
STATIC := libcandle_rocm.a
LINK := libcandle_rocm.so
SONAME := $(LINK).$(ABI)
SHARED := $(LINK).$(VERSION)

# Paths may contain spaces. So they stand in quotes, and no rule has a file as its target.
.PHONY: all install
# `make all install` builds first with -j too.
.NOTPARALLEL:

# cargo's report names the build script's folder. `check` runs the build script and leaves out the Rust layer. Without
# make's own variables cargo takes all CPUs. Objects for link-time optimisation cannot be joined to one.
all:
	@set -e; lib='$(CANDLE_ROCM_LIB)'; zstd=; needs='-lm -lpthread -ldl'; \
	if [ -z "$$lib" ]; then \
	  case "$$CFLAGS $$CXXFLAGS" in *-flto*) export CFLAGS="$$CFLAGS -fno-lto" CXXFLAGS="$$CXXFLAGS -fno-lto" ;; esac; \
	  unset MAKEFLAGS MFLAGS; \
	  report=$$($(CARGO) check --release -p candle-rocm-sys $(CARGO_FLAGS) --message-format=json-render-diagnostics \
	    $(if $(FEATURES),--no-default-features --features '$(FEATURES)')); \
	  script='"reason":"build-script-executed","package_id":"[^"]*candle-rocm-sys[@#][^"]*"'; \
	  lib=$$(printf '%s\n' "$$report" | sed -n "s/.*$$script.*\"out_dir\":\"\([^\"]*\)\".*/\1/p" | tail -n 1); \
	fi; \
	if [ -f "$$lib/libzstd.a" ]; then zstd=$$lib/libzstd.a; else needs="-lzstd $$needs"; fi; \
	set -x; mkdir -p '$(BUILD)'; rm -f '$(BUILD)/features'; \
	$(CC) -nostdlib -r -o '$(BUILD)/candle_rocm.o' -Wl,--whole-archive "$$lib/$(STATIC)" -Wl,--no-whole-archive \
	  $${zstd:+"$$zstd"}; \
	$(OBJCOPY) --wildcard --keep-global-symbol='!crk_priv_*' --keep-global-symbol='!crk_host_module_*' \
	  --keep-global-symbol='crk_*' '$(BUILD)/candle_rocm.o'; \
	$(AR) rcs '$(BUILD)/$(STATIC)' '$(BUILD)/candle_rocm.o'; \
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs -o '$(BUILD)/$(SHARED)' \
	  '$(BUILD)/candle_rocm.o' $$needs; \
	echo "$$needs" > '$(BUILD)/needs'; \
	echo '$(FEATURES)' > '$(BUILD)/features'

install:
	@for path in 'PREFIX=$(PREFIX)' 'LIBDIR=$(LIBDIR)' 'INCLUDEDIR=$(INCLUDEDIR)'; do \
	  case "$$path" in *=/*) ;; *) echo "$$path: it must be an absolute path" >&2; exit 1 ;; esac; \
	done; \
	[ -f '$(BUILD)/features' ] || { echo "$(BUILD) has no $(SHARED): run make first" >&2; exit 1; }; \
	[ -z '$(FEATURES)' ] || grep -qxF -e '$(FEATURES)' '$(BUILD)/features' || \
	  { echo "FEATURES is '$(FEATURES)', but $(BUILD) has another build: run make FEATURES=$(FEATURES) first" >&2; \
	    exit 1; }; \
	set -e; lib='$(DESTDIR)$(LIBDIR)'; cmake="$$lib/cmake/candle_rocm"; \
	(cd include; find . -name '*.h') | while read -r header; do \
	  install -D -m 644 "include/$$header" '$(DESTDIR)$(INCLUDEDIR)'/"$$header"; \
	done; \
	install -d "$$lib/pkgconfig" "$$cmake"; \
	install -m 644 '$(BUILD)/$(STATIC)' "$$lib"; \
	install -m 755 '$(BUILD)/$(SHARED)' "$$lib"; \
	ln -sf $(SHARED) "$$lib/$(SONAME)"; \
	ln -sf $(SONAME) "$$lib/$(LINK)"; \
	for name in candle_rocm.pc candle_rocm-config.cmake candle_rocm-config-version.cmake; do \
	  file=$$cmake/$$name; case $$name in *.pc) file=$$lib/pkgconfig/$$name ;; esac; \
	  PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' VERSION='$(VERSION)' ABI='$(ABI)' \
	    NEEDS="$$(cat '$(BUILD)/needs')" awk -f packaging/fill.awk "packaging/$$name.in" > "$$file"; \
	  chmod 644 "$$file"; \
	done; \
	echo "installed candle_rocm $(VERSION) in $$lib and $(DESTDIR)$(INCLUDEDIR)"
