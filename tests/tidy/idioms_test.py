#!/usr/bin/env python3
"""Tests of idioms.py: what is searched, what each idiom is, and the numbers that may only shrink. Usage: idioms_test.py"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import idioms  # noqa: E402
from tidy import Tidy  # noqa: E402

# For each idiom what it finds, and what it leaves alone.
EXAMPLES = {
    "Of ... (first word)": (["Of a cache, all of it.", "Of `count` experts"], ["One Of a kind.", "Of course it does.", "Offers more."]),
    "so many (a number's name)": (["at most so many", "so many last tokens", "so much of it"], ["so many that it ends", "not so much as one"]),
    "hangs on": (["hangs on the load", "Hanging\n  on it"], ["hangs", "change only"]),
    "of which (before its part)": (["halves, of which the device computes one", "of which nothing runs"],
                                   ["each of which the step reads", "8 GiB, of which 2 are free", "half of which no client needs"]),
    "is no ... (is not a)": (["what is no file", "rows are no numbers"], ["there is no file", "is no longer", "is no more than 4", "is no different"]),
    "is the X's (belongs to)": (["it is the kernel's.", "is nobody else's", "they are theirs", "are the hosts', too"],
                                ["is the kernel's answer", "it's fine.", "is nobody's business"]),
    "is of (belongs to)": (["a certificate is of no CA", "they are of one socket"], ["is of the same type", "is of interest"]),
    "from N on": (["from 1 on", "steps from which on it is cut", "from `at` on"], ["from now on", "from here on", "from it once"]),
    "goes on with (continues)": (["gone on with", "goes on where it stopped"], ["goes on", "goes onto"]),
    "lies in (is stored in)": (["the file that lies on a disk", "weights lie\n  where"], ["lies between 0 and 1", "relies on"]),
    "comes to lie, as it lies": (["where memory comes to lie", "rows as they lie"], ["comes to life"]),
    "but for (except)": (["but for one"], ["but forbids"]),
    "anew": (["begun anew"], ["a newt", "renew"]),
    "behind it (after)": (["the word behind its name", "one behind the other"],
                          ["behind numoe-router", "behind the router", "behind a load balancer", "leaves nothing behind"]),
    "nobody's": (["is nobody's business"], ["nobody waits"]),
    "meets (is multiplied by)": (["rows meet the weights", "the weights that it meets"], ["streams that meet by events", "meets the deadline"]),
    "to be had": (["cannot be had", "to be had"], ["has to be hard"]),
    "none: ... (null if)": (["null: nothing", "The number; nullopt: there is none"], ["one of none: nothing", "note: none"]),
    "who, whoever (headless)": (["is seen by who sees it", "whoever calls"], ["those who call", "who is let in"]),
    "hears of": (["what it hears of it"], ["hearing", "was heard"]),
    "says nothing of": (["says nothing of it"], ["says nothing"]),
    "by turns": (["by turns"], ["by turning", "it turns"]),
    "of equals": (["of equals the lower id"], ["of equal size"]),
    "frees them not": (["preempting it frees them not", "knows it not"], ["this is it, not that", "does it not work?", "as it not once"]),
    "whence, amiss, let be": (["whence it came", "is let be"], ["hence", "let it be known"]),
}


class IdiomsTest(unittest.TestCase):
    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder.name, path)), exist_ok=True)
            with open(os.path.join(folder.name, path), "w", encoding="utf-8") as f:
                f.write(text)
        return folder.name

    def findings(self, files):
        tidy = Tidy(self.tree(files))
        idioms.check(tidy)
        return [f"{path}:{line}: {what}" for path, line, what in tidy.found]

    def names(self, path, text):
        return [place.name for place in idioms.search(path, text)]

    def places(self, path, text):
        return [(place.line, place.words) for place in idioms.search(path, text)]

    def test_every_idiom(self):
        self.assertEqual(list(EXAMPLES), [name for name, _, _ in idioms.IDIOMS])
        for name, (idiomatic, plain) in EXAMPLES.items():
            for text in idiomatic:
                self.assertIn(name, self.names("a.md", text + "\n"), text)
                self.assertIn(name, self.names("a.cc", "int a;\n// " + text.replace("\n", "\n//") + "\nint b;\n"), text)
            for text in plain:
                self.assertNotIn(name, self.names("a.md", text + "\n"), text)

    def test_comments_and_literals_of_sources_are_searched(self):
        self.assertEqual(self.places("a.cc", "int a;\n/// It hangs\n///   on b.\nint hangs; /* on */ int anew = 1'000;  // anew\n"),
                         [(2, "hangs on"), (4, "anew")])
        self.assertEqual(self.places("a.h", 'Fail("as it "\n     "lies",\n     "can", "be had");\nauto c = \'"\'; // anew\n'),
                         [(1, "as it lies"), (4, "anew")])
        self.assertEqual(self.places("a.js", "let a = 'anew';\n/** But for\n *  b. */\n"), [(1, "anew"), (2, "But for")])
        self.assertEqual(self.places("a.py", 'def anew():\n    """By\n    turns."""\n    return "#" + \'anew\'  # but for\n'),
                         [(2, "By turns"), (4, "anew"), (4, "but for")])

    def test_other_texts_are_searched_whole(self):
        self.assertEqual(self.places("a.md", "A row as it\nlies. This hangs\n\non nothing.\n"), [(1, "as it lies")])
        self.assertEqual(self.places("a.yaml", "# hangs\n# on\nkey: anew\n# Of each.\n"), [(1, "hangs on"), (3, "anew"), (4, "Of")])

    def test_a_block_begins_after_code_and_after_an_empty_line(self):
        of = lambda path, text: [place.line for place in idioms.search(path, text)]
        self.assertEqual(of("a.h", "// What\n// Of it is.\n//\n// Of each.\nint a;  // Of a.\n        // Of b.\n"), [4, 5])
        self.assertEqual(of("a.py", '"""Of all."""\nx = ["Of the first", "Of the second"]\n'), [1, 2, 2])
        self.assertEqual(of("a.md", "Text\nOf it.\n\nOf it.\n"), [4])

    def test_which_files_are_searched(self):
        for path in ("common/a.cc", "deploy/a.sh", "README.md", "helm/numoe/templates/_a.tpl", "CMakeLists.txt", "tests/nano/a.py"):
            self.assertTrue(idioms.is_searched(path), path)
        for path in ("tests/tidy/a.py", "a/testdata/a.txt", "tests/golden/data/a.txt", "deploy/manifests/a.yaml", "a.json", "a.png"):
            self.assertFalse(idioms.is_searched(path), path)

    def test_a_file_has_no_more_than_its_row_says(self):
        two = {"common/a.cc": "// anew\nint a;\n// But for b.\n"}
        row = lambda text: {"tests/tidy/idioms.txt": f"# files\n{text}"}
        self.assertEqual(self.findings({**two, **row("common/a.cc 2\n")}), [])
        for rows, allowed in (("", 0), ("common/a.cc 1\n", 1)):
            first, second = self.findings({**two, **row(rows)})
            self.assertIn('common/a.cc:1: "anew" is an idiom that only this project uses: write "again", "from the beginning". '
                          f"The file has 2 idioms, at most {allowed}", first)
            self.assertIn('common/a.cc:3: "But for" is an idiom', second)

    def test_a_number_may_only_shrink(self):
        one = {"common/a.cc": "// anew\n"}
        row = lambda text: {"tests/tidy/idioms.txt": text}
        found, = self.findings({**one, **row("common/a.cc 3\n")})
        self.assertIn("tests/tidy/idioms.txt:1: common/a.cc shrank to 1: lower its number from 3", found)
        found, = self.findings({**one, **row("common/a.cc 1\ncommon/b.cc 1\n")})
        self.assertIn("tests/tidy/idioms.txt:2: common/b.cc has no idioms now: remove its row", found)
        for wrong in ("common/a.cc", "common/a.cc 0", "common/a.cc -1", "7"):
            self.assertIn(f'idioms.txt:1: "{wrong}": expected PATH N', self.findings(row(wrong + "\n"))[0])
        self.assertIn('idioms.txt:2: "common/a.cc 1": expected PATH N, each path once', self.findings({**one, **row("common/a.cc 1\n" * 2)})[0])

    def test_lower_writes_smaller_numbers_and_never_a_larger_one(self):
        root = self.tree({"common/a.cc": "// anew\n", "common/b.cc": "// anew\nint a;\n// anew\n", "common/d.cc": "// anew\n",
                          "tests/tidy/idioms.txt": "# files\ncommon/a.cc 3\ncommon/b.cc 1\ncommon/c.cc 2\n"})
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "idioms.py")
        run = lambda *arguments: subprocess.run([sys.executable, program, *arguments, root], capture_output=True, text=True, check=True).stdout
        self.assertEqual(run("--lower"), "")
        with open(root + "/tests/tidy/idioms.txt", encoding="utf-8") as f:
            self.assertEqual(f.read(), "# files\ncommon/a.cc 1\ncommon/b.cc 1\n")
        self.assertEqual(run("--files"), "common/a.cc 1\ncommon/b.cc 2\ncommon/d.cc 1\n")
        self.assertIn("    4  anew\n", run())
        self.assertIn("    4  in 3 files\n", run())


if __name__ == "__main__":
    unittest.main()
