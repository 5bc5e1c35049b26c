#!/usr/bin/env python3
"""Tests of tidy.py: a small clean tree, and one bad change of it for each finding. Usage: tidy_test.py"""
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import assertions  # noqa: E402
import hardening  # noqa: E402
import pairs  # noqa: E402
import preprocessed  # noqa: E402
import source  # noqa: E402
from tidy import Tidy  # noqa: E402

CONTRACT = "// What it is.\n// Who owns it.\n// Which threads.\n#pragma once\n"
FOLDERS = ["http", "chat", "scheduler", "model", "attention", "gate", "transport", "sampling", "tokenizer", "kvcache",
           "device", "more"]
CLEAN = {
    "README.md": "".join(f"| {i} | step | `coordinator/{folder}` | a -> b |\n" for i, folder in enumerate(FOLDERS, 1)),
    **{f"coordinator/{folder}/README.md": "room\n" for folder in FOLDERS},
    "tests/tidy/layers.txt": "# rooms\ncommon/base:\ncommon/tensor:\ncommon/kernels: common/tensor\n"
                             "coordinator/execution/model: common/tensor\nexpert_worker: common/tensor\n",
    "tests/tidy/ratchet.txt": "# none\n",
    "tests/tidy/heavy.txt": "# heavy\ncommon/base/check.cc preprocessed-lines 9\n",
    "tests/tidy/pairs.txt": "# percent\n0\n",
    "common/base/check.h": CONTRACT + "void Check();\n",
    "common/base/check.cc": '#include "common/base/check.h"\nvoid Check() { std::fprintf(stderr, "x"); }\n',
    "common/base/CMakeLists.txt": "numoe_library(numoe_base SRCS check.cc)\n",
    "common/tensor/tensor.h": CONTRACT + '#include "common/base/check.h"\n',
    "common/tensor/tensor_avx2.cc": '#include "common/tensor/tensor.h"\n',
    "common/tensor/CMakeLists.txt": "foreach(isa avx2)\n  numoe_kernel(t SRCS tensor_${isa}.cc)\nendforeach()\n",
    "tests/fuzz/replay_main.cc": "int main() { return 0; }\n",
    "common/cmake/Rules.cmake": "add_executable(x ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)\n",
}


def findings(files):
    """The findings of tidy in CLEAN with these files added, replaced, or removed (None)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**CLEAN, **files}.items():
            if text is None:
                continue
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
        return [f"{path}:{line}: {what}" for path, line, what in Tidy(root).run()]


def body(lines):
    return "void Long(int a,\n          int b) {\n" + "  NUMOE_DCHECK(a);\n" * (lines - 3) + "}\n"


class TidyTest(unittest.TestCase):
    def expect(self, files, *needles):
        found = findings(files)
        self.assertEqual(len(found), len(needles), found)
        for line, needle in zip(found, needles):
            self.assertIn(needle, line)

    def with_line(self, line, path="common/base/check.cc"):
        return {path: CLEAN.get(path, "") + line + "\n"}

    def test_clean_tree(self):
        self.expect({})

    def test_layers(self):
        include = '#include "common/tensor/tensor.h"'
        self.expect(self.with_line(include), "common/base/check.cc:3: common/base may not include common/tensor/tensor.h")
        self.expect({"expert_worker/main.cc": '#include "coordinator/execution/model/m.h"\n', "expert_worker/CMakeLists.txt": "main.cc",
                     "coordinator/execution/model/m.h": CONTRACT}, "expert_worker may not include coordinator/execution/model/m.h")
        self.expect({"common/new/a.cc": "int a;\n", "common/new/CMakeLists.txt": "a.cc"}, "its room, common/new, is not in")
        self.expect({"common/base/check.cc": '#include "check.h"\n#include "common/base/check.h"\n'}, "from the repository's root")

    def test_a_new_room_does_not_have_the_rights_of_the_folder_above(self):
        parent = {"tests/tidy/layers.txt": CLEAN["tests/tidy/layers.txt"] + "coordinator: common/tensor\n"}
        source = lambda path: {**parent, path: '#include "common/tensor/tensor.h"\n', os.path.dirname(path) + "/CMakeLists.txt": "a.cc"}
        self.expect(source("coordinator/a.cc"))
        self.expect(source("coordinator/execution/model/deep/a.cc"))
        self.expect(source("coordinator/execution/more/a.cc"), "a.cc:1: its room, coordinator/execution/more, is not in")
        self.expect(source("coordinator/execution/a.cc"), "a.cc:1: its room, coordinator/execution, is not in")
        self.expect(source("coordinator/more/a.cc"), "coordinator/more/a.cc:1: its room, coordinator/more, is not in")
        self.expect(source("coordinator/more/deep/a.cc"), "a.cc:1: its room, coordinator/more, is not in")
        self.expect(source("expert_worker/more/a.cc"), "a.cc:1: its room, expert_worker/more, is not in")

    def test_table_of_layers(self):
        table = CLEAN["tests/tidy/layers.txt"]
        self.expect({"tests/tidy/layers.txt": table.replace("common/tensor:\n", "common/tensor: common/kernels\n")}, "cycle:")
        self.expect({"tests/tidy/layers.txt": table + "common/x: common/nowhere\n"}, "no room of the table")
        self.expect({"tests/tidy/layers.txt": table + "coordinator: expert_worker\n"}, "daemons never include each other")

    def test_storeys(self):
        table = CLEAN["tests/tidy/layers.txt"]
        rooms = lambda **edges: {"tests/tidy/layers.txt": table + "".join(
            f"coordinator/{room.replace('_', '/')}: {targets}\n" for room, targets in edges.items())}
        self.expect(rooms(a_x="coordinator/b/y", b_y="", b_z="common/tensor"))
        self.expect(rooms(a_x="coordinator/b/y", b_y="", b_z="coordinator/a/w", a_w=""),
                    "cycle of storeys: coordinator/a -> coordinator/b -> coordinator/a")
        held = lambda path, namespace: {path: f"namespace {namespace} {{\n}}  // namespace {namespace}\n",
                                        os.path.dirname(path) + "/CMakeLists.txt": os.path.basename(path)}
        model, test = "coordinator/execution/model/m.cc", "tests/unit/coordinator/execution/model/n_test.cc"
        self.expect({**held(model, "numoe::execution"), **held(test, "numoe::execution")})
        self.expect(held(model, "numoe::execution::cuda"))
        self.expect(held(model, "numoe::limits"))
        self.expect(held(model, "numoe"), "m.cc:1: namespace numoe: expected numoe::execution, or one below it")
        self.expect(held(model, "numoe::executions"), "namespace numoe::executions: expected numoe::execution")
        self.expect(held(test, "numoe::worker"), "n_test.cc:1: namespace numoe::worker: expected numoe::execution")
        self.expect(held("expert_worker/w.cc", "numoe::execution"), "namespace numoe::execution: expected numoe::worker")
        self.expect(held("common/kernels/k.cc", "numoe::bytes"))
        self.expect(held("common/kernels/k.cc", "numoe::execution"), "k.cc:1: namespace numoe::execution is a storey's: expected numoe")

    def test_who_includes_heavy_headers(self):
        table = lambda rows: {"tests/tidy/heavy.txt": rows + "\n"}
        log = self.with_line("#include <log/log.h>")
        self.expect({**log, **table("log/: common/base/check.cc")})
        self.expect({**log, **table("log/: nobody")}, "check.cc:3: <log/log.h> is heavy: only nobody may include it")
        self.expect({**log, **table("log/: tests/fuzz/replay_main.cc")}, "check.cc:3: <log/log.h> is heavy: only tests/fuzz/replay_main.cc",
                    "heavy.txt:1: tests/fuzz/replay_main.cc does not include log/: remove it")
        self.expect({**self.with_line("#include <regex>", "tests/fuzz/replay_main.cc"), **table("regex: nobody")}, "<regex> is heavy")
        self.expect(table("log/ 3"), 'heavy.txt:1: "log/ 3": expected HEADER: FILE')

    def test_heavy_headers_in_headers_of_the_product(self):
        row = lambda count: {"tests/tidy/heavy.txt": f"json/json.hpp in product headers {count}\n"}
        heavy = '#include "json/json.hpp"\n#include "json/forward.hpp"'
        of_tensor = self.with_line(heavy, "common/tensor/tensor.h")
        self.expect({**of_tensor, **row(1)})
        self.expect({**of_tensor, **row(0)}, "tensor.h:6: a header that includes <json/json.hpp>: one of 1, at most 0")
        self.expect({**of_tensor, **row(2)}, "heavy.txt:1: json/json.hpp in product headers shrank to 1: lower its entry from 2")
        self.expect({**self.with_line(heavy), **row(0)})
        self.expect({**self.with_line(heavy, "common/base/check.h"), **row(0)}, "check.h:6: a header that includes <json/json.hpp>")

    def test_programs_of_tests(self):
        row = lambda count: {"tests/tidy/heavy.txt": f"numoe_tests {count}  # why\n"}
        programs = {"tests/unit/CMakeLists.txt": "numoe_tests(a SRCS)\nnumoe_tests(b SRCS)\nnumoe_fuzz(c SRCS)\n"}
        self.expect({**programs, **row(2)})
        self.expect({**programs, **row(1)}, "CMakeLists.txt:1: a program of numoe_tests: one of 2, at most 1", "CMakeLists.txt:2:")
        self.expect({**programs, **row(3)}, "heavy.txt:1: numoe_tests shrank to 2")
        for more in ("NUMOE_TESTS(d SRCS)", "  numoe_tests (d SRCS)", "Numoe_Tests\t(d"):
            self.expect({"tests/unit/CMakeLists.txt": programs["tests/unit/CMakeLists.txt"] + more + "\n", **row(3)})
            self.expect({**programs, "tests/more.cmake": more + "\n", **row(3)})
        self.expect({**programs, "tests/more.cmake": "#   numoe_tests(NAME)\nfunction(numoe_tests name)\n", **row(2)})

    def test_programs_of_tests_are_declared_by_the_rules_alone(self):
        row = lambda who: {"tests/tidy/heavy.txt": f"add_test(): {who}\n"}
        plain = {"tests/unit/CMakeLists.txt": "add_custom_target(a)\nadd_test(NAME a COMMAND b)\n"}
        self.expect({**plain, **row("tests/unit/CMakeLists.txt")})
        self.expect({**plain, **row("nobody")}, "tests/unit/CMakeLists.txt:2: add_test() is for nobody alone: declare a program")
        self.expect({"tests/a.cmake": "ADD_TEST (NAME a COMMAND b)\n", **row("nobody")}, "tests/a.cmake:1: add_test() is for nobody")
        self.expect(row("tests/unit/CMakeLists.txt"), "heavy.txt:1: tests/unit/CMakeLists.txt does not call add_test(): remove it")
        rules = "common/cmake/Rules.cmake"
        self.expect({"tests/tidy/heavy.txt": f"add_executable(): {rules}\n"})
        self.expect({"tests/unit/CMakeLists.txt": "add_executable(a a.cc)\n", "tests/tidy/heavy.txt": f"add_executable(): {rules}\n"},
                    f"tests/unit/CMakeLists.txt:1: add_executable() is for {rules} alone")

    def test_units_whose_lines_are_counted_exist(self):
        self.expect({"tests/tidy/heavy.txt": "common/base/gone.cc preprocessed-lines 9\n"}, "heavy.txt:1: common/base/gone.cc does not exist")

    def test_the_product_does_not_include_tests(self):
        include = '#include "tests/support/a.h"'
        support = {"tests/support/a.h": CONTRACT, "tests/tidy/layers.txt": CLEAN["tests/tidy/layers.txt"] + "tests/support:\n"}
        self.expect({**self.with_line(include, "tests/fuzz/replay_main.cc"), **support})
        self.expect({**self.with_line(include), **support}, "check.cc:3: the product does not include tests: tests/support/a.h")

    def test_what_targets_link(self):
        lists = lambda path, text: {path: CLEAN.get(path, "") + text}
        of_kernels = "common/kernels/CMakeLists.txt"
        tensor = {"common/tensor/CMakeLists.txt": "foreach(isa avx2)\n  numoe_kernel(numoe_t_${isa} SRCS tensor_${isa}.cc)\nendforeach()\n"}
        self.expect({**tensor, **lists(of_kernels, "numoe_library(k SRCS DEPS numoe_base numoe_t_avx2 fmt::fmt Threads::Threads)\n")})
        self.expect(lists("common/base/CMakeLists.txt", "numoe_library(numoe_more DEPS numoe_base)  # numoe_library(b DEPS k)\n"))
        self.expect({**tensor, **lists("common/base/CMakeLists.txt", "numoe_binary(b SRCS\n  DEPS numoe_t_avx2)\n")},
                    "common/base/CMakeLists.txt:2: b of common/base may not link numoe_t_avx2 of common/tensor")
        self.expect({**lists(of_kernels, "numoe_cuda_library(k SRCS)\n"),
                     **lists("coordinator/execution/model/CMakeLists.txt", "target_link_libraries(m PUBLIC k_host)\n")},
                    "coordinator/execution/model/CMakeLists.txt:1: m of coordinator/execution/model may not link k_host of common/kernels")
        self.expect({**lists("tests/CMakeLists.txt", "numoe_library(numoe_support SRCS)\n"), **lists(of_kernels, "numoe_library(k DEPS numoe_support)\n")},
                    "common/kernels/CMakeLists.txt:1: k links numoe_support of tests/CMakeLists.txt: the product does not link tests")

    def test_sources_with_a_test_of_their_name(self):
        least = lambda percent: {"tests/tidy/pairs.txt": f"# percent\n{percent}\n"}
        test = lambda path: {f"tests/unit/common/base/{path}": '#include "common/base/check.h"\n',
                             "tests/unit/common/base/CMakeLists.txt": f"numoe_tests(t SRCS {path})\n"}
        more = {"common/base/more.cc": "int x;\n", "common/base/CMakeLists.txt": "numoe_library(numoe_base SRCS check.cc more.cc)\n"}
        self.expect({**test("check_test.cc"), **least(100)})
        self.expect({**test("check_test.cc"), **more, **least(50)})
        self.expect({**test("check_test.cc"), **more, **least(51)}, "pairs.txt:2: 1 of 2 sources of the product have a test of their name, "
                                                                    "50 %, expected at least 51 %")
        self.expect({**test("check_test.cc"), **least(99)}, "pairs.txt:2: 100 % of the product's sources have a test of their name: raise")
        self.expect({**test("other_test.cc"), **least(0)})
        self.expect({"tests/tidy/pairs.txt": "# percent\n"}, "pairs.txt:1: expected one number")
        self.expect(least("most"), "pairs.txt:2: expected one number")

    def test_headers(self):
        self.expect({"common/base/check.h": "// Short.\n#pragma once\n"}, "check.h:1: a header begins with a contract")
        self.expect({"common/base/check.h": CONTRACT.replace("#pragma once\n", "")}, "no #pragma once")
        self.expect(self.with_line("#include <vector.h>\n#include <vector.h>"), "check.cc:4: <vector.h> is included twice")

    def test_sizes(self):
        self.expect(self.with_line("static_assert(x);\n" * 497 + "int y;"))
        self.expect(self.with_line("static_assert(x);\n" * 498 + "int y;"), "check.cc:1: file has 501 lines, at most 500")
        self.expect(self.with_line(body(70).rstrip()))
        self.expect(self.with_line(body(71).rstrip()), "check.cc:3: function Long has 71 lines, at most 70")
        kernel = {"common/kernels/a.cc": body(150), "common/kernels/CMakeLists.txt": "a.cc"}
        self.expect(kernel)
        self.expect({**kernel, "common/kernels/a.cc": body(151)}, "at most 150")

    def test_files_of_the_page(self):
        self.expect({"coordinator/serving/page/a.js": "// What it is.\n", "coordinator/serving/page/b.css": "/* What it is. */\n",
                     "coordinator/serving/page/c.html": "<!doctype html>\n<!-- What it is. -->\n"})
        self.expect({"coordinator/serving/page/a.js": "let x;\n"}, "begins with a comment")
        self.expect({"coordinator/serving/page/a.js": "// What it is.\n" * 501}, "file has 501 lines")
        self.expect({"coordinator/serving/page/a.js": "// What it is. \n"}, "trailing white space")

    def test_ratchet(self):
        entry = lambda n: {"tests/tidy/ratchet.txt": f"common/base/check.cc:Long {n}\n"}
        long = self.with_line(body(80).rstrip())
        self.expect({**long, **entry(80)})
        self.expect({**long, **entry(79)}, "function Long has 80 lines, at most 79")
        self.expect({**long, **entry(81)}, "ratchet.txt:1: common/base/check.cc:Long shrank to 80 lines: lower its entry from 81")
        self.expect(entry(80), "remove its entry")
        self.expect({"tests/tidy/ratchet.txt": "nonsense\n"}, "expected PATH LINES")

    def test_assertions_of_a_room(self):
        # common/base has 4 lines of code, and 20 need no assertion; 15 in 1000 are 3 in 200.
        plain = lambda lines, more="": self.with_line("int x;\n" * lines + more)
        self.expect(plain(16, "// Comment.\n" * 400 + "\n" * 9))
        self.expect(plain(17), "common/base:1: 0 assertions in 21 lines of code are 0.00 in 1000, at least 15")
        asserted = "NUMOE_CHECK_LE(a, b);\nif (c) NUMOE_DCHECK(c) << d;\nstatic_assert(sizeof(a) == 1);"
        self.expect(plain(213, asserted))
        self.expect(plain(214, asserted), "3 assertions in 221 lines of code are 13.57 in 1000, at least 15")
        for nothing in ("MY_NUMOE_CHECK(a)", "// NUMOE_CHECK(a)", '"NUMOE_CHECK(a)";', "#define NUMOE_CHECK_EQ(a, b) \\\n  NUMOE_CHECK((a) == (b))"):
            self.expect(plain(17, nothing), "0 assertions in 2")

    def test_rooms_that_assert_less(self):
        table = lambda rows: {"tests/tidy/assertions.txt": f"# rooms\n{rows}\n"}
        ten = self.with_line("int x;\n" * 986 + "NUMOE_CHECK(a);\n" * 9 + "NUMOE_CHECK(a);")
        self.expect(ten, "common/base:1: 10 assertions in 1000 lines of code are 10.00 in 1000, at least 15", "check.cc:1: file has")
        long = {"tests/tidy/ratchet.txt": "common/base/check.cc 998\n"}
        self.expect({**ten, **long, **table("common/base 10")})
        self.expect({**ten, **long, **table("common/base 11")}, "common/base:1: 10 assertions in 1000 lines of code are 10.00 in 1000, at least 11")
        self.expect({**ten, **long, **table("common/base 9")}, "assertions.txt:2: common/base has 10.00 assertions in 1000 lines now: raise its entry from 9")
        self.expect({**self.with_line("NUMOE_CHECK(a);"), **table("common/base 14")}, "assertions.txt:2: common/base has 200.00")
        self.expect(table("common/kernels 3"), "assertions.txt:2: common/kernels has no code: remove its entry")
        self.expect(table("common/base 15"), 'assertions.txt:2: "common/base 15": expected ROOM SHARE')

    def test_table_of_assertions(self):
        with tempfile.TemporaryDirectory() as root:
            for path, text in (("common/base/a.cc", "int x;\n\nNUMOE_CHECK(x);\n"), ("common/b/a.h", "// Comment.\nint x;\nint y;\n"),
                               ("tests/a.cc", "int x;\n"), ("tests/tidy/layers.txt", "common/base:\ncommon/b:\n")):
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(text)
            tidy = Tidy(root)
            rows = [line.split() for line in assertions.table(assertions.count(tidy, tidy.read_layers()))[1:]]
        self.assertEqual(rows, [["common/b", "2", "0", "0.00"], ["common/base", "2", "1", "500.00"], ["all", "4", "1", "250.00"]])

    def room(self, **files):
        """Files of common/base, by name without the dot before their ending, in namespace n."""
        names = {name.replace("_cc", ".cc").replace("_h", ".h"): text for name, text in files.items()}
        contract = lambda name: CONTRACT if name.endswith(".h") else ""
        return {**{f"common/base/{name}": f"{contract(name)}namespace n {{\n{text}\n}}\n" for name, text in names.items()},
                "common/base/CMakeLists.txt": "SRCS check.cc " + " ".join(names),
                "common/base/all.cc": "NUMOE_CHECK(a);\n" + "".join(f'#include "common/base/{name}"\n' for name in names if name.endswith(".h")),
                "tests/all.cmake": "${CMAKE_SOURCE_DIR}/common/base/all.cc <common/base/all.cc>\n"}

    def test_a_class_has_one_source_file(self):
        two = "common/base/b.cc:2: n::A has member functions in common/base/a.cc too: a class has one source file"
        of = lambda a, b, header="class A {\n  void F();\n  void G();\n};": self.room(a_h=header, a_cc=a, b_cc=b)
        self.expect(of("void A::F() {}", "void G() {}"))
        self.expect(of("void A::F() {}", "void A::G() {}"), two)
        for another in ("A::~A() = default;", "A::A(int x) : x_{x}, y_(f(x)) {}", "bool A::operator()(int x) const {\n}", "A& A::operator=(A&&) noexcept {}",
                        "bool A::operator<(const A& other) const {}", "A::operator std::span<int>() const {}", "std::map<int, A::B> A::F(std::vector<int> x) {}",
                        "template <typename T>\nvoid A<T>::F() {}", "A::B* A::C::F() {}", "namespace { int x; } void A::F() {}"):
            with self.subTest(another):
                self.expect(of("void A::F() {}", another), two)
        self.expect(of("void A::F() {}", "B A::*Member(void (A::*f)()) {\n  return A::F();\n}\nint A::x = 1;\nA::B F(A::B b = A::G()) {}"))
        self.expect(of("void A::F() {}", "struct B { void F(); };\nvoid B::F() {}"))
        self.expect(of("namespace {\nclass A {};\n}\nvoid A::F() {}", "void A::F() {}"))

    def test_a_class_has_at_most_400_lines(self):
        wide = lambda lines: "class A {\n" + "  void F();\n" * (lines - 2) + "};"
        long = lambda name, lines: f"void {name}() {{\n" + "  NUMOE_CHECK(a);\n" * (lines - 2) + "}\n"
        parts = "".join(long(f"A::F{i}", 60) for i in range(5)) + long("G", 60)
        self.expect(self.room(a_h=wide(100), a_cc=parts))
        self.expect(self.room(a_h=wide(101), a_cc=parts), "common/base/a.h:6: class n::A has 401 lines, its member functions included, at most 400")
        self.expect(self.room(a_cc="namespace {\n" + wide(101) + "\n" + parts + "\n}"), "common/base/a.cc:3: class n::A has 401 lines")
        nested = wide(100).replace("{", "{\n  template <class T> struct B final : C<T> {\n    void F();\n  };", 1)
        self.expect(self.room(a_h=nested, a_cc=parts.replace("A::F", "A::B::F")), "common/base/a.h:6: class n::A has 403 lines")
        self.expect(self.room(a_h=wide(100), a_cc="struct A::B {\n};\n" + parts.replace("A::F", "A::B::F")))

    def test_a_name_means_one_thing(self):
        twice = lambda one, other=None: self.room(a_h=one, b_h=other or one)
        said = "common/base/b.h:6: n::A is a type of common/base/a.h:6 too: a name means one thing"
        for one in ("class A {\n};", "struct alignas(64) A final : B<int> {\n};", "enum class A : uint8_t { kOne };", "using A = int;",
                    "template <typename T>\nusing A = std::vector<T>;", "template <typename T = B<int>>\nstruct A {\n};", "class MACRO [[nodiscard]] A {\n};",
                    "union A {\n};"):
            with self.subTest(one):
                self.expect(twice(one), said)
            self.expect(twice("struct A {\n};", one), said)
        for one in ("class A;", "template <class A>\nvoid F(A a) {\n}", "enum { kOne };", "namespace {\nstruct A {\n};\n}", "struct A F() {\n}", "using std::A;",
                    "template <>\nstruct A<int> {\n};", "namespace A {\n}", "struct B%s {\n  struct A {\n  };\n};", "namespace b%s {\nstruct A {\n};\n}"):
            self.expect(twice(one.replace("%s", "1"), one.replace("%s", "2")))
            self.expect(twice("struct A {\n};", one.replace("%s", "1")))
        self.expect(self.room(a_h="#if B\nstruct A {\n};\n#else\nstruct A {\n};\n#endif"))
        self.expect(self.room(a_h="namespace b::c {\nstruct A {\n};\n}", b_h="namespace b {\ninline namespace c {\nstruct A {\n};\n}\n}"),
                    "n::b::c::A is a type of common/base/a.h:7 too")

    def test_prints_and_throw(self):
        tensor = "common/tensor/tensor_avx2.cc"
        for line in ("void F() { std::cout << 1; }", 'void F() { printf("x"); }', 'void F() { std::fprintf(stderr, "x"); }'):
            self.expect(self.with_line(line, tensor), "tensor_avx2.cc:2: raw print")
        self.expect(self.with_line('// std::cout\nstd::string s = "printf(";\nint n = snprintf(b, 1, "x");', tensor))
        self.expect({"expert_worker/main.cc": 'int main() { printf("x"); }\n', "expert_worker/CMakeLists.txt": "main.cc"})
        self.expect(self.with_line("void F() { throw 1; }"), "check.cc:3: throw")
        self.expect(self.with_line('// It must not throw.\nstd::string s = "throw";'))

    def test_lines(self):
        self.expect(self.with_line("int x;  // TO" + "DO: later"), "check.cc:3: unfinished work")
        self.expect(self.with_line("int x; "), "check.cc:3: trailing white space")
        self.expect({"deploy/a.sh": "cd /ho" + "me/someone\n"}, "deploy/a.sh:1: a path of one machine")
        self.expect({"deploy/a.sh": "cd build/work/x && cat ~/home/x\n"})

    def test_commented_out_code(self):
        for line in ("// x = y;", "//  return 3;", "  // Foo(a, b);", "// if (a) {", "// }", "// #include <a.h>", "// int x = 3;",
                     "// for (int i = 0; i < 3; ++i) {"):
            self.expect(self.with_line(line), "check.cc:3: commented-out code")
        for line in ("// Rounds to even; ties go to the larger.", "// One of a, b;", "// y = x * scale[col / 32]", "// return of it;x",
                     "// if the file is gone (a race), nothing happens."):
            self.expect(self.with_line(line))

    def test_dead_files(self):
        self.expect({"common/base/lost.h": CONTRACT}, "lost.h:1: nobody includes this file")
        self.expect({"common/base/lost.h": CONTRACT,
                     "common/cmake/More.cmake": "target_compile_options(x -include ${CMAKE_SOURCE_DIR}/common/base/lost.h)\n"})
        self.expect({"common/base/lost.cc": "int x;\n"}, "lost.cc:1: no CMakeLists.txt builds this file")
        self.expect({"common/tensor/tensor.cc": "int x;\n"}, "tensor.cc:1: no CMakeLists.txt builds this file")
        self.expect({"common/base/sub/a.cc": "int x;\n", "common/base/CMakeLists.txt": "SRCS check.cc sub/a.cc"})

    def test_readme(self):
        self.expect({"README.md": None}, "README.md:1: the life of a token has 0 steps")
        self.expect({"coordinator/chat/README.md": None}, "README.md:2: the life of a token names coordinator/chat")


class FilesTest(unittest.TestCase):
    def listed(self, root):
        """tidy.py --files for a tree with five sources, one of them below build/."""
        for path in ("a.cc", "sub/with space.h", "gone.cc", "ignored/b.cc", "build/c.cc", "a.py"):
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write("x\n")
        if os.path.isdir(root + "/.git"):
            with open(root + "/.gitignore", "w", encoding="utf-8") as f:
                f.write("ignored/\nbuild/\n")
            subprocess.run(["git", "-C", root, "add", "gone.cc"], check=True)
        os.remove(root + "/gone.cc")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidy.py")
        return subprocess.run([sys.executable, program, "--files", root], capture_output=True, text=True, check=True).stdout.splitlines()

    def test_sources_that_git_does_not_track_yet_belong_to_them_and_deleted_ones_do_not(self):
        with tempfile.TemporaryDirectory() as root:
            try:
                subprocess.run(["git", "init", "-q", root], check=True)
            except FileNotFoundError:
                self.skipTest("not installed: git")
            self.assertEqual(self.listed(root), ["a.cc", "sub/with space.h"])

    def test_there_is_a_list_where_there_is_no_git(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(self.listed(root), ["a.cc", "ignored/b.cc", "sub/with space.h"])


class CommitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        try:
            self.git("init", "-q")
        except FileNotFoundError:
            self.skipTest("not installed: git")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        self.first = self.git("rev-parse", "HEAD").strip()
        self.git("commit", "-q", "--allow-empty", "-m", "second")

    def git(self, *arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", self.root, *who, *arguments], capture_output=True, text=True, check=True).stdout

    def found(self, *rows, root=None):
        os.makedirs(os.path.join(root or self.root, "tests/bench"), exist_ok=True)
        with open(os.path.join(root or self.root, "tests/bench/a.jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
        return [(line, what) for path, line, what in Tidy(root or self.root).run() if path.startswith("tests/bench")]

    def test_rows_name_commits_of_the_history(self):
        lost = "0123abc"
        self.assertEqual(self.found({"commit": self.first[:7]}, {"commit": lost, "commit_note": "rebased away"}), [])
        (line, what), = self.found({"commit": self.first}, {"commit": lost})
        self.assertEqual((line, f"commit {lost} is not in the history" in what), (2, True), what)
        self.git("reset", "-q", "--hard", self.first)
        newest = self.git("rev-parse", "ORIG_HEAD").strip()  # git still has it, and no clone gets it
        self.assertEqual([line for line, _ in self.found({"commit": newest})], [1])
        self.assertIn("names its commit", self.found({"x": 1})[0][1])

    def test_subjects_of_commits_after_the_limit_came_have_at_most_72_characters(self):
        subjects = lambda: [what for path, _, what in Tidy(self.root).run() if "its subject has" in what]
        commit = lambda subject: self.git("commit", "-q", "--allow-empty", "-m", subject)
        commit("a" * 73)
        os.makedirs(self.root + "/tests/tidy")
        with open(self.root + "/tests/tidy/idioms.txt", "w", encoding="utf-8") as f:
            f.write("# none\n")
        commit("b" * 73)
        self.assertEqual(subjects(), [])
        self.git("checkout", "-q", "-b", "parallel")
        commit("c" * 73)  # begun before the limit, and merged after it
        self.git("checkout", "-q", "-")
        self.git("add", ".")
        commit("d" * 73)
        commit("ü" * 72 + "\n\n" + "A longer line below the subject. " * 9)
        self.git("merge", "-q", "-m", "e" * 73, "parallel")
        self.assertEqual(subjects(), [])
        commit("f" * 73)
        found, = subjects()
        self.assertIn("its subject has 73 characters, at most 72: shorten it", found)

    def test_nothing_is_said_where_git_does_not_know(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(self.found({"commit": "0123abc"}, root=root), [])
            subprocess.run(["git", "clone", "-q", "--depth", "1", "file://" + self.root, root + "/clone"], check=True)
            self.assertEqual(self.found({"commit": self.first}, root=root + "/clone"), [])


class PreprocessedTest(unittest.TestCase):
    def test_folders_and_definitions_of_a_build(self):
        with tempfile.TemporaryDirectory() as root:
            commands = [{"command": "g++ -DA=1 -I/x -isystem /y -O2 -include pch.hxx -c a.cc"}, {"arguments": ["g++", "-DA=2", "-DB", "-I/x"]}]
            for path, text in (("a.h", "int a;\n\nint b;\n"), ("a.cc", '#include "a.h"\nint c;\n'), ("c.json", json.dumps(commands))):
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(text)
            self.assertEqual(preprocessed.flags_of(root + "/c.json"), ["-DA=1", "-I/x", "-isystem", "/y", "-DB"])
            self.assertEqual(preprocessed.lines_of(root + "/a.cc", []), 3)

    def test_a_unit_may_have_two_percent_more_lines_than_its_number(self):
        self.assertTrue(preprocessed.limits())
        self.assertEqual(preprocessed.verdicts({"a.cc": 1020, "b.cc": 10}, {"a.cc": 1000, "b.cc": 1000}), [])
        found = preprocessed.verdicts({"a.cc": 1021, "b.cc": 1021}, {"a.cc": 1000, "b.cc": 1021})
        self.assertEqual([line[:29] for line in found], ["a.cc:1: 1,021 lines when comp"])

    def judged(self, release):
        """The exit status where a unit has ten times its lines."""
        with mock.patch("preprocessed.platform.freedesktop_os_release", return_value=release), \
             mock.patch("preprocessed.limits", return_value={"a.cc": 10}), mock.patch("preprocessed.flags_of", return_value=[]), \
             mock.patch("preprocessed.lines_of", return_value=100), mock.patch("sys.argv", ["preprocessed.py", "c.json"]), \
             mock.patch("sys.stdout", io.StringIO()) as said, mock.patch("sys.stderr", said):
            return preprocessed.main(), said.getvalue()

    def test_only_debian_12_is_judged(self):
        status, said = self.judged({"ID": "debian", "VERSION_ID": "12"})
        self.assertEqual((status, "a.cc:1: 100 lines" in said), (1, True), said)
        for release in ({"ID": "debian", "VERSION_ID": "13"}, {"ID": "ubuntu", "VERSION_ID": "24.04"}, {"ID": "arch"}):
            status, said = self.judged(release)
            self.assertEqual((status, "a.cc 100 of 10" in said, "not judged on" in said), (0, True, True), said)


class PairsTest(unittest.TestCase):
    def rooms(self, files):
        """What pairs.per_room says of a tree of these files."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(text)
            return pairs.per_room(Tidy(root))

    def test_programs_and_variants_of_an_instruction_set_are_not_counted(self):
        sources = ("common/main.cc", "common/chat_main.cc", "common/a_avx2.cc", "common/a_avx512.cc", "common/a_amx.cc",
                   "common/a_scalar.cc", "proto/b.cc", "tests/c.cc", "common/a.cc", "common/domain.cc", "common/avx2.cc")
        self.assertEqual(self.rooms({path: "" for path in sources}), {"common": ([], ["a.cc", "avx2.cc", "domain.cc"])})

    def test_a_test_is_in_the_same_folder_or_above(self):
        source = {"common/x/y/a.cc": ""}
        for folder, is_paired in (("common/x/y", True), ("common/x", True), ("common", True), ("common/x/z", False), ("common/x/y/z", False),
                                  ("", False)):
            found = self.rooms({**source, f"tests/unit/{folder}/a_test.cc": ""})
            self.assertEqual(found, {"common/x/y": (["a.cc"], []) if is_paired else ([], ["a.cc"])}, folder)

    def test_a_test_includes_the_header(self):
        for include, is_paired in (('#include "common/x/a.h"\n', True), ('#include "common/x/b.h"\n', False)):
            found = self.rooms({"common/x/a.cc": "", "common/x/a.h": "", "tests/unit/common/x/a_test.cc": include})
            self.assertEqual(found, {"common/x": (["a.cc"], []) if is_paired else ([], ["a.cc"])}, include)

    def test_the_table_has_a_row_for_each_room_and_one_for_all(self):
        with tempfile.TemporaryDirectory() as root:
            for path in ("common/x/a.cc", "common/x/b.cc", "tests/unit/common/x/a_test.cc"):
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                open(os.path.join(root, path), "w", encoding="utf-8").close()
            rows = [row.split() for row in pairs.table(Tidy(root))]
        self.assertEqual(rows, [["common/x", "1", "of", "2", "50", "%", "b.cc"], ["all", "1", "of", "2", "50", "%"]])


class HardeningTest(unittest.TestCase):
    def test_what_ninja_builds_of_the_product_is_judged(self):
        listing = ("bin/numoe-pack: CXX_EXECUTABLE_LINKER__numoe-pack_Release\nnumoe-pack: phony\nnumoe-old: phony\n"
                   "tests/base_tests: CXX_EXECUTABLE_LINKER__base_tests_Release\n"
                   "coordinator/libnumoe_health.a: CXX_STATIC_LIBRARY_LINKER__numoe_health_Release\nlibnumoe_health.a: phony\n"
                   "common/base/libnumoe_base.a: CXX_STATIC_LIBRARY_LINKER__numoe_base_Release\n"
                   "tests/cuda_host/libcuda_host.a: CXX_STATIC_LIBRARY_LINKER__cuda_host_Release\n")
        self.assertEqual(hardening.targets(listing),
                         (["bin/numoe-pack"], ["common/base/libnumoe_base.a", "coordinator/libnumoe_health.a"]))


class SourceTest(unittest.TestCase):
    def names(self, text):
        return [(name, first, last) for name, first, last in source.functions(source.blank(text))]

    def test_shapes_of_functions(self):
        self.assertEqual(self.names("namespace a {\nclass B : public C {\n  int F() const override { return 1; }\n};\n}\n"),
                         [("F", 3, 3)])
        self.assertEqual(self.names("B::B(int x)\n    : a_{x}, b_(f(1)) {\n  G();\n}\n"), [("B::B", 1, 4)])
        self.assertEqual(self.names("template <typename T>\nauto F(T t) -> std::vector<T> {\n}\n"), [("F", 1, 3)])
        self.assertEqual(self.names("TEST_P(Suite, Case) {\n  if (x) {\n  }\n}\n"), [("Suite.Case", 1, 4)])
        self.assertEqual(self.names("void F(Options o = {}) {\n}\nint x[] = {1, 2};\n"), [("F", 1, 2)])
        self.assertEqual(self.names("bool operator==(A a, A b) {\n}\nstruct alignas(64) S {\n};\n"), [("operator==", 1, 2)])
        self.assertEqual(self.names("#define M(x) \\\n  do { x; } while (0)\nvoid F() {\n  auto g = [&](int i) {\n  };\n}\n"),
                         [("F", 3, 6)])

    def test_comments_and_literals_are_blank(self):
        self.assertEqual(source.blank('a // {\nb /* {\n*/ "{" \'{\' 1\'000 R"(\n{)" c'), 'a \nb \n "" \'\' 1\'000 ""\n c')


if __name__ == "__main__":
    unittest.main()
