"""A small DNS server for the tests' pods: it knows the addresses of Services, and of the pods of headless Services.

It looks up each question in the API server at that moment, so that an answer is never older than the cluster. The kubelet writes its
address and the search domains for SERVICE.NAMESPACE.svc.cluster.local into resolv.conf.
"""
import socket
import struct
import threading
import urllib.error

from namespaces import ADDRESS

SUFFIX = ".svc.cluster.local"
TYPE_A, CLASS_IN, NO_SUCH_NAME, REFUSED = 1, 1, 3, 5


class Names:
    def __init__(self, node):
        self.node, self.ended = node, threading.Event()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ADDRESS, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def addresses(self, name):
        """-> the addresses of a name, or None if there is no such name"""
        service, _, namespace = name.removesuffix(SUFFIX).partition(".")
        if not name.endswith(SUFFIX) or not namespace or "." in namespace:
            return None
        try:
            own = self.node.ask_api(f"api/v1/namespaces/{namespace}/services/{service}")["spec"]
        except urllib.error.HTTPError:
            return None
        if own["clusterIP"] != "None":
            return [own["clusterIP"]]
        slices = self.node.ask_api(f"apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name={service}")
        # "ready" includes pods that are not, if the Service publishes such addresses.
        return [a for s in slices["items"] for e in s["endpoints"] or () if e["conditions"].get("ready") for a in e["addresses"]]

    def answer(self, query):
        """The bytes of an answer: the question again, and a record for each address."""
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("ascii", "replace"))
            at += 1 + query[at]
        question = query[12:at + 5]
        kind, _ = struct.unpack(">HH", question[-4:])
        addresses = self.addresses(".".join(labels).lower())
        records = [struct.pack(">HHHIH4s", 0xC00C, TYPE_A, CLASS_IN, 1, 4, socket.inet_aton(a)) for a in addresses or () if kind == TYPE_A]
        flags = 0x8580 | (NO_SUCH_NAME if addresses is None else 0)  # the flags of an authoritative answer
        return query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + question + b"".join(records)

    def serve(self):
        while not self.ended.is_set():
            query, sender = self.socket.recvfrom(512)
            try:
                self.socket.sendto(self.answer(query), sender)
            except (OSError, IndexError, struct.error) as error:  # the API server does not answer, or the packet was not a question
                if not self.ended.is_set():
                    print(f"a question of {sender[0]} is not answered: {error!r}", flush=True)
