#!/usr/bin/env python3
"""The packages of deploy/package: what they contain, and that they install, serve and go away on systems that have nothing else.

Usage: packages.py --bin build/release/bin [TEST...]
Needs tests/deploy/package_tests.txt; the tests that install need root and Debian's mirror, for clean systems of Debian 12 and 13
in folders. Standard library only.
"""
import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [os.path.join(HERE, "..", "support")]
import skips  # noqa: E402

PROGRAMS = ["numoe-coordinator", "numoe-expert-worker", "numoe-router", "numoe-pack", "numoe-chat", "numoe-bench", "numoe-download"]
MIRROR = os.environ.get("NUMOE_DEBIAN_MIRROR", "http://deb.debian.org/debian")
BIN = ""
# Serves the small model with the programs in $1 and prints what it answers; without a network but this host's own.
SERVE = r"""
set -e
bin=$1 model=$2 run=$(mktemp -d)
"$bin"/numoe-expert-worker --model "$model" --worker-index 0 --worker-count 1 --listen "unix:$run/w0.sock" --metrics-port 0 >"$run/log" 2>&1 &
"$bin"/numoe-coordinator --model "$model" --workers "unix:$run/w0.sock" --port 0 --port-file "$run/port" >>"$run/log" 2>&1 &
trap 'kill %1 %2 2>/dev/null; wait' EXIT
for i in $(seq 600); do [ ! -s "$run/port" ] || break; sleep 0.1; done
[ -s "$run/port" ] || { cat "$run/log" >&2; exit 1; }
"$bin"/numoe-chat --url "http://127.0.0.1:$(cat "$run/port")" --temperature 0 'What is 84 * 3 / 2?' </dev/null || { cat "$run/log" >&2; exit 1; }
"""


def run(*argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv[:6])}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def why_no_systems():
    if not shutil.which("mmdebstrap"):
        return "not installed: mmdebstrap"
    return "" if os.geteuid() == 0 else "needs root (chroot)"


class Built(unittest.TestCase):
    """Both packages, built once."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="numoe-packages.")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.deb, cls.tar = cls.build("first")

    @classmethod
    def build(cls, name):
        out = run(os.path.join(ROOT, "deploy/package/build.sh"), "--bin", BIN, "--out", os.path.join(cls.folder, name))
        deb, tar = sorted(out.split(), key=lambda path: path.endswith(".tar.zst"))
        return deb, tar


class Contents(Built):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = os.path.join(cls.folder, "root")
        run("dpkg-deb", "-x", cls.deb, cls.root)

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def test_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("not installed: lintian")
        found = subprocess.run(["lintian", "--fail-on", "error", "--allow-root", self.deb], capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)

    def test_the_same_commit_gives_the_same_bytes(self):
        again = self.build("again")
        for first, second in zip((self.deb, self.tar), again):
            with open(first, "rb") as a, open(second, "rb") as b:
                self.assertEqual(hashlib.sha256(a.read()).hexdigest(), hashlib.sha256(b.read()).hexdigest(), os.path.basename(first))

    def test_one_number_everywhere(self):
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
            version = re.search(r"project\(numoe VERSION (\S+)", f.read())[1]
        self.assertIn(f"_{version}-1_", os.path.basename(self.deb))
        self.assertEqual(run(self.path("usr/bin/numoe-coordinator"), "--version").split()[1], version)
        for name, pattern in (("helm/numoe/Chart.yaml", r'appVersion: "(\S+)"'), ("deploy/podman/numoe.yaml", r"image: localhost/numoe:(\S+)"),
                              ("deploy/Dockerfile", r"ARG VERSION=(\S+)"), ("deploy/CHANGELOG.md", r"^## (\S+)$"),
                              ("deploy/package/README.md", r"numoe_([\d.]+)-1_amd64"), ("deploy/systemd/README.md", r"numoe_([\d.]+)-1_amd64")):
            with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                self.assertEqual(re.search(pattern, f.read(), re.M)[1], version, name)

    def test_every_flag_is_in_its_man_page_and_its_completion(self):
        for name in PROGRAMS:
            with gzip.open(self.path("usr/share/man/man1", name + ".1.gz"), "rt", encoding="utf-8") as f:
                page = f.read().replace("\\-", "-")
            with open(self.path("usr/share/bash-completion/completions", name), encoding="utf-8") as f:
                completion = f.read()
            texts = [run(self.path("usr/bin", name), "--help")]
            for command in re.findall(r"^  (\w+) +\S", texts[0].partition("\nSubcommands:\n")[2], re.M):
                texts.append(run(self.path("usr/bin", name), command, "--help"))
            flags = {flag for text in texts for flag in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", text, re.M)}
            self.assertGreater(len(flags), 4, name)
            for flag in flags:
                self.assertRegex(page, rf"{flag}\b", name)
                if f"{flag} (--" not in texts[0]:  # another program's name for a flag
                    self.assertRegex(completion, rf"{flag}\b", name)

    def test_the_man_pages_are_read_without_a_warning(self):
        for name in PROGRAMS:
            man = ["man", "--warnings=w", "-E", "UTF-8", "-l", self.path("usr/share/man/man1", name + ".1.gz")]
            page = subprocess.run(man, capture_output=True, text=True, env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8"})
            self.assertEqual((page.returncode, page.stderr), (0, ""), name)
            self.assertIn("SEE ALSO", page.stdout)

    def complete(self, name, *words):
        """-> what bash offers after `name WORDS...`. The last word is being written."""
        typed = [name, *words]
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; '
                  f'_{name.replace("-", "_")} "$1" "${{@: -1}}" "${{@: -2:1}}"; printf "%s\\n" "${{COMPREPLY[@]}}"')
        return run("bash", "-c", script, "bash", self.path("usr/share/bash-completion/completions", name), *typed).split()

    def test_bash_completes_flags_values_commands_and_files(self):
        self.assertEqual(self.complete("numoe-coordinator", "--kv-c"), ["--kv-cache-dtype"])
        self.assertEqual(self.complete("numoe-coordinator", "--kv-cache-dtype", "fp"), ["fp8_e4m3", "fp8"])
        self.assertEqual(self.complete("numoe-coordinator", "--kv-cache-dtype", "=", "bf"), ["bf16", "bfloat16"])
        self.assertEqual(self.complete("numoe-coordinator", "--port", ""), [], "a number, no file")
        self.assertIn(self.path("usr/share"), self.complete("numoe-coordinator", "--model", self.path("usr/sh")))
        self.assertEqual(self.complete("numoe-pack", "conv"), ["convert"])
        self.assertEqual(self.complete("numoe-pack", "convert", "--out", "x", "--sl"), ["--slice"])
        self.assertEqual(self.complete("numoe-pack", "inspect", "--sl"), [])

    def test_fish_completes(self):
        if not shutil.which("fish"):
            self.skipTest("not installed: fish")
        for typed, offered in (("numoe-coordinator --kv-c", "--kv-cache-dtype"), ("numoe-coordinator --kv-cache-dtype fp8_", "fp8_e4m3"),
                               ("numoe-pack con", "convert"), ("numoe-pack convert --sl", "--slice")):
            script = f"source {self.path('usr/share/fish/vendor_completions.d', typed.split()[0] + '.fish')}; complete -C '{typed}'"
            self.assertIn(offered, run("fish", "--no-config", "-c", script, env={**os.environ, "HOME": self.folder}))


@unittest.skipIf(why_no_systems(), why_no_systems())
class CleanSystems(Built):
    def system(self, suite):
        """-> a folder with the smallest system of this name that has apt."""
        root = os.path.join(self.folder, suite)
        run("mmdebstrap", "--variant=apt", "--skip=cleanup/apt/lists", suite, root, MIRROR)
        for kind, where in (("proc", "proc"), ("tmpfs", "dev/shm")):
            os.makedirs(os.path.join(root, where), exist_ok=True)
            run("mount", "-t", kind, kind, os.path.join(root, where))
            self.addCleanup(subprocess.run, ["umount", "-l", os.path.join(root, where)], check=False)
        return root

    def serve(self, root, folder):
        return run("chroot", root, "bash", "-c", SERVE, "bash", folder + "/bin", folder + "/share/numoe/models/nano")

    def test_the_deb_brings_what_it_needs_serves_and_goes_away(self):
        root = self.system("bookworm")
        shutil.copy(self.deb, os.path.join(root, "tmp"))
        apt = ["chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "--no-install-recommends"]
        run(*apt, "install", "/tmp/" + os.path.basename(self.deb))
        self.assertIn("126", self.serve(root, "/usr"))
        self.assertIn("numoe:", run("chroot", root, "getent", "passwd", "numoe"))
        with open(os.path.join(root, "etc/numoe/numoe.env"), "a", encoding="utf-8") as f:
            f.write("NUMOE_LOG_LEVEL=debug\n")
        run(*apt, "install", "--reinstall", "/tmp/" + os.path.basename(self.deb))
        with open(os.path.join(root, "etc/numoe/numoe.env"), encoding="utf-8") as f:
            self.assertIn("NUMOE_LOG_LEVEL=debug", f.read(), "an operator's settings stay")
        run(*apt, "remove", "numoe")
        self.assertTrue(os.path.exists(os.path.join(root, "etc/numoe/numoe.env")))
        self.assertFalse(os.path.exists(os.path.join(root, "usr/bin/numoe-coordinator")))
        run("chroot", root, "dpkg", "--purge", "numoe")
        self.assertFalse(os.path.exists(os.path.join(root, "etc/numoe")))

    def test_the_archive_needs_no_library_of_a_newer_system(self):
        root = self.system("trixie")
        run("tar", "-C", os.path.join(root, "opt"), "-xf", self.tar)
        (name,) = os.listdir(os.path.join(root, "opt"))
        self.assertIn("126", self.serve(root, "/opt/" + name))
        os.rename(os.path.join(root, "opt", name), os.path.join(root, "srv/moved"))
        self.assertIn("126", self.serve(root, "/srv/moved"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = os.path.dirname(os.path.abspath(options.bin))
    sys.exit(skips.finish(unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result))
