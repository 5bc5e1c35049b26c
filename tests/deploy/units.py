"""The systemd units: what systemd reports about them, and that their commands and environments serve."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from client import Server
from containers import ROOT, free_port

UNITS = os.path.join(ROOT, "deploy/systemd")
MODEL = os.path.join(ROOT, "deploy/models/nano")
BIN = ""
EXPOSURE_MAX = 20  # in tenths of the exposure of systemd-analyze security; the coordinator has 1.9, because it may use GPUs


class Unit:
    """The entries of a unit file that say what is started, for one instance."""

    def __init__(self, name, instance=""):
        with open(os.path.join(UNITS, name), encoding="utf-8") as f:
            self.text = f.read().replace("%i", instance)

    def values(self, key):
        return re.findall(f"^{key}=(.*)$", self.text, re.M)

    def environment(self, replaced, changed):
        """The environment as systemd makes it: Environment=, then the files in their order, with the changes of `changed`."""
        lines = [word for value in self.values("Environment") for word in value.split()]
        for path in self.values("EnvironmentFile"):
            optional, path = path.startswith("-"), path.lstrip("-")
            source = os.path.join(UNITS, os.path.basename(path))
            if os.path.exists(source):
                with open(source, encoding="utf-8") as f:
                    lines += [line.strip() for line in f if line.strip() and line[0] != "#"]
            else:
                assert optional, f"no example of {path}"
        environment = {**dict(line.split("=", 1) for line in lines), **changed}
        for old, new in replaced:
            environment = {name: value.replace(old, new) for name, value in environment.items()}
        return environment


@unittest.skipUnless(shutil.which("systemd-analyze"), "not installed: systemd-analyze")
class SystemdUnits(unittest.TestCase):
    def test_systemd_accepts_them_and_finds_them_hardened(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("numoe-coordinator.service", "numoe-expert-worker@.service"):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(Unit(name, "%i").text.replace("/usr/bin/numoe-", BIN + "/numoe-"))
                verified = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
                self.assertEqual((verified.returncode, verified.stdout + verified.stderr), (0, ""), name)
                secure = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", path],
                                        capture_output=True, text=True)
                self.assertEqual(secure.returncode, 0, secure.stdout[-400:] + secure.stderr)


class UnitCommands(unittest.TestCase):
    def serve(self, workers, changed):
        """Starts the units' commands as systemd would, with `changed` in the files of /etc/numoe, and requests an answer."""
        folder = tempfile.mkdtemp(prefix="numoe-units.")
        self.addCleanup(shutil.rmtree, folder, True)
        port = free_port()
        changed = {**changed, "NUMOE_METRICS_PORT": "0"}
        replaced = [("/run/numoe", folder), ("/var/lib/numoe/model", MODEL), ("8080", str(port))]
        units = [Unit("numoe-expert-worker@.service", str(worker)) for worker in range(workers)] + [Unit("numoe-coordinator.service")]
        log_path = os.path.join(folder, "log")
        with open(log_path, "ab") as log:
            for unit in units:
                (command,) = unit.values("ExecStart")
                argv = [word.replace("/usr/bin/", BIN + "/") for word in command.split()]
                process = subprocess.Popen(argv, env=unit.environment(replaced, changed), stdout=log, stderr=log)
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
        def read_log():
            with open(log_path, encoding="utf-8") as f:
                return f.read()
        server = Server("127.0.0.1", port, read_log)
        server.await_health("ready")
        reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "What is 84 * 3 / 2?"}], "temperature": 0})
        self.assertIn("126", reply["choices"][0]["message"]["content"])

    def test_they_serve_as_installed(self):
        self.serve(1, {})

    def test_two_workers_need_what_the_readme_says(self):
        self.serve(2, {"NUMOE_WORKER_COUNT": "2", "NUMOE_WORKERS": "unix:/run/numoe/w0.sock,unix:/run/numoe/w1.sock"})
