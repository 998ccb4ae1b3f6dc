# make          build the library and the program build/neuralsim
# make demo     show what it does
# make test     build everything and run the tests
# make bench    run the benchmarks
# make check    everything a change has to pass: format, static analysis, both compilers,
#               sanitizers, debug build, fuzzing (some minutes)
# make screenshots   the pictures of the README, from real pages (needs npm and chromium)
# make bench-page    how fast pages open and play
# make docs     the tables of keys in docs/, from the sources
# make format   rewrite the sources in the house format
# make clean    remove every build folder
#
# What is missing on a Debian machine is installed first, or named when not run as root.
# CMakeLists.txt knows what is built; JOBS=n sets how many processes work at a time.

# Recordings of real machines for the tests that use them: without them these tests are skipped.
ifndef NEURALSIM_DATA
ifneq ($(wildcard ../shared/data),)
export NEURALSIM_DATA := $(abspath ../shared/data)
endif
endif

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 60

# $(call build,folder,target,CMake options)
build = cmake -S . -B $(1) --log-level=NOTICE $(3) >/dev/null && \
        cmake --build $(1) --target $(2) -j $(JOBS) -- --no-print-directory --quiet
# $(call run_tests,folder)
run_tests = ctest --test-dir $(1) --output-on-failure --no-tests=error -j $(JOBS)

folders = $(wildcard include src apps cli bench examples tests)
sources = $(shell find $(folders) -name '*.c' -o -name '*.h' | sort)
tidy_sources = $(shell find $(wildcard src cli bench apps) -name '*.c' | sort)

clang = -DCMAKE_C_COMPILER=clang
# What this version of cppcheck gets wrong here: arrays that loops fill, statements made of macros,
# functions that return functions, arguments of functions whose names macros make (those of one macro
# call have one place in the file, by which it knows them). The analyser of clang and the sanitizers
# look for the same. No two threads read one directory stream, so readdir()
# is safe. Tests run in one thread.
cppcheck_mistakes = --suppress=uninitvar --suppress=ctuuninitvar --suppress=internalAstError \
    --suppress=CastIntegerToAddressAtReturn --suppress='ctuArrayIndex:src/contact/*.def' \
    --suppress='ctunullpointer:src/contact/*.def' --suppress='ctuPointerArith:src/contact/*.def' \
    --suppress=readdirCalled --suppress='strtokCalled:tests/*'
debug = -DCMAKE_BUILD_TYPE=Debug

.PHONY: all demo test bench docs screenshots bench-page check format clean
.PHONY: check-format check-client check-tests check-clang check-tidy check-cppcheck check-asan check-debug check-fuzz
.NOTPARALLEL:

all:
	@tools/setup.sh build
	@echo "building build/neuralsim"
	@$(call build,build,program)

demo: all
	@sh examples/demo.sh build/neuralsim

docs:
	@$(call build,build,docs)

test:
	@tools/setup.sh test
	@echo "building library, program, examples and tests"
	@$(call build,build,all)
	@$(call run_tests,build)

bench: all
	@build/neuralsim bench

# Both in a browser, as the tests of pages: tools/setup.sh test installs what they need.
screenshots: all
	@NEURALSIM_PROGRAM=build/neuralsim node tools/screenshots.mjs

bench-page: all
	@NEURALSIM_PROGRAM=build/neuralsim node tools/measure_page.mjs

# ---- check: each part also runs alone, once `tools/setup.sh check` has been called ---------------

check:
	@tools/setup.sh check
	@$(MAKE) --no-print-directory check-format check-client check-tests check-clang check-tidy check-cppcheck \
	    check-debug check-asan check-fuzz
	@echo "all checks passed"

# Every source has a test of its name.
check-tests:
	@echo "== names of tests"
	@python3 tools/test_names.py

check-format:
	@echo "== format"
	@clang-format --dry-run -Werror $(sources)

check-client:
	@echo "== the program includes public headers only, folders those of layers below"
	@tools/check_client.sh
	@tools/check_layers.sh

check-clang:
	@echo "== clang build and tests (build-clang)"
	@$(call build,build-clang,all,$(clang))
	@$(call run_tests,build-clang)

# The static checkers read how each file is compiled from build-clang/compile_commands.json.
build-clang/compile_commands.json:
	@cmake -S . -B build-clang $(clang) >/dev/null

check-tidy: build-clang/compile_commands.json
	@echo "== clang-tidy"
	@printf '%s\n' $(tidy_sources) | xargs -P $(JOBS) -n 1 clang-tidy --quiet -p build-clang

# The exit code of cppcheck misses what it finds across files, so any output is a failure.
check-cppcheck: build-clang/compile_commands.json
	@echo "== cppcheck"
	@mkdir -p build-clang/cppcheck
	@cppcheck --project=build-clang/compile_commands.json --cppcheck-build-dir=build-clang/cppcheck \
	    --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --quiet \
	    --library=posix --suppress=missingIncludeSystem $(cppcheck_mistakes) -j $(JOBS) \
	    2>build-clang/cppcheck.txt; status=$$?; cat build-clang/cppcheck.txt; \
	    test $$status = 0 && test ! -s build-clang/cppcheck.txt

# Debug builds keep NS_ASSERT and the validators.
check-debug:
	@echo "== gcc debug build and tests (build-debug)"
	@$(call build,build-debug,all,-DCMAKE_C_COMPILER=gcc $(debug))
	@$(call run_tests,build-debug)

# One thread: the leak sanitizer of clang 14 can crash at exit when libomp or OpenBLAS has threads.
check-asan:
	@echo "== address and undefined sanitizers (build-asan)"
	@$(call build,build-asan,all,$(clang) $(debug) -DCMAKE_C_FLAGS=-O1 \
	    -DNEURALSIM_SANITIZE=address$(comma)undefined)
	@OMP_THREAD_LIMIT=1 OPENBLAS_NUM_THREADS=1 $(call run_tests,build-asan)

check-fuzz:
	@echo "== fuzzing, $(FUZZ_SECONDS) s for each target (build-fuzz)"
	@$(call build,build-fuzz,all,$(clang) $(debug) -DCMAKE_C_FLAGS=-O1 -DNEURALSIM_FUZZ=ON)
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

comma := ,

format:
	@clang-format -i $(sources)

clean:
	@rm -rf build build-clang build-debug build-asan build-fuzz
