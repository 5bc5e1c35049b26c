"""The systemd units: what systemd says of them, and that their commands and environments serve."""
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
EXPOSURE_MAX = 20  # tenths, of systemd-analyze security: 1.9 is the coordinator's, which may see GPUs


class Unit:
    """The parts of a unit file that say what is started, for one instance."""

    def __init__(self, name, instance=""):
        with open(os.path.join(UNITS, name), encoding="utf-8") as f:
            self.text = f.read().replace("%i", instance)

    def values(self, key):
        return re.findall(f"^{key}=(.*)$", self.text, re.M)

    def environment(self, replaced):
        """As systemd puts it together: Environment=, then the files in their order."""
        lines = [word for value in self.values("Environment") for word in value.split()]
        for path in self.values("EnvironmentFile"):
            optional, path = path.startswith("-"), path.lstrip("-")
            source = os.path.join(UNITS, os.path.basename(path))
            if os.path.exists(source):
                with open(source, encoding="utf-8") as f:
                    lines += [line.strip() for line in f if line.strip() and line[0] != "#"]
            else:
                assert optional, f"no example of {path}"
        environment = dict(line.split("=", 1) for line in lines)
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
    def test_they_serve(self):
        folder = tempfile.mkdtemp(prefix="numoe-units.")
        self.addClassCleanup(shutil.rmtree, folder, True)
        port = free_port()
        replaced = [("/run/numoe", folder), ("/var/lib/numoe/model", MODEL), ("8080", str(port)), ("0.0.0.0", "127.0.0.1")]
        units = [Unit("numoe-expert-worker@.service", "0"), Unit("numoe-expert-worker@.service", "1"), Unit("numoe-coordinator.service")]
        log_path = os.path.join(folder, "log")
        with open(log_path, "ab") as log:
            for unit in units:
                (command,) = unit.values("ExecStart")
                argv = [word.replace("/usr/bin/", BIN + "/") for word in command.split()]
                process = subprocess.Popen(argv, env={**unit.environment(replaced), "NUMOE_METRICS_PORT": "0"}, stdout=log, stderr=log)
                self.addClassCleanup(process.wait)
                self.addClassCleanup(process.kill)
        def read_log():
            with open(log_path, encoding="utf-8") as f:
                return f.read()
        server = Server("127.0.0.1", port, read_log)
        server.await_health("ready")
        reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "What is 84 * 3 / 2?"}], "temperature": 0})
        self.assertIn("126", reply["choices"][0]["message"]["content"])
