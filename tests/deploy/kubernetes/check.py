#!/usr/bin/python3
"""Checks rendered Kubernetes objects: check.py SCHEMAS FILE...

Each FILE is what `kubectl kustomize` wrote. Prints what is wrong, one line
each: what the published schemas do not allow, names that point nowhere, and
pods that are less closed than Kubernetes' "restricted" profile asks for.
"""
import json
import sys

import jsonschema
import yaml

# Made by the person who installs; docs/deployment.md says how.
SECRETS = {
    "comera-tls": {"cert.pem", "key.pem", "ca.pem"},
    "comera-ca": {"ca.pem"},
    "comera-worker-token": {"token"},
    "comera-metrics-token": {"token"},
    "comera-postgres": {"url", "password"},
}
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")


class Schemas:
    def __init__(self, path):
        with open(path) as file:
            self.whole = json.load(file)
        self.by_kind = {}
        for name, schema in self.whole["definitions"].items():
            kinds = schema.get("properties", {}).get("kind", {}).get("enum")
            versions = (schema.get("properties", {}).get("apiVersion", {})
                        .get("enum"))
            if kinds and versions:
                self.by_kind[(versions[0], kinds[0])] = name

    def errors(self, item):
        name = self.by_kind.get((item.get("apiVersion"), item.get("kind")))
        if name is None:
            yield f"no schema for {item.get('apiVersion')} {item.get('kind')}"
            return
        schema = dict(self.whole)
        schema["$ref"] = "#/definitions/" + name
        for error in jsonschema.Draft7Validator(schema).iter_errors(item):
            place = ".".join(str(part) for part in error.absolute_path)
            yield f"{place}: {error.message[:200]}"


def matches(selector, labels):
    return all(labels.get(key) == value
               for key, value in selector.get("matchLabels", selector).items())


def ports_of(pod):
    return {port["name"]: port["containerPort"]
            for container in pod["spec"]["containers"]
            for port in container.get("ports", [])}


class Objects:
    """The objects of one folder."""

    def __init__(self, items):
        self.items = items
        self.pods = [(item, item["spec"]["template"]) for item in items
                     if item["kind"] in WORKLOADS]

    def of(self, kind):
        return [item for item in self.items if item["kind"] == kind]

    def names(self, kind):
        return {item["metadata"]["name"] for item in self.of(kind)}

    def selected(self, selector):
        return [pod for _, pod in self.pods
                if matches(selector, pod["metadata"]["labels"])]

    def errors(self):
        for item in self.items:
            label = item["metadata"].get("labels", {})
            if (item["kind"] != "Namespace" and
                    label.get("app.kubernetes.io/part-of") != "comera"):
                yield item, "no label part-of"
        for item, pod in self.pods:
            for text in self.workload_errors(item, pod):
                yield item, text
        for item in self.of("Service"):
            pods = self.selected(item["spec"]["selector"])
            if not pods:
                yield item, "selects no pod"
            for port in item["spec"]["ports"]:
                for pod in pods:
                    if ports_of(pod).get(port["targetPort"]) != port["port"]:
                        yield item, f"port {port['name']} leads nowhere"
        for item in self.of("PodDisruptionBudget"):
            if not self.selected(item["spec"]["selector"]):
                yield item, "selects no pod"
        for item in self.of("NetworkPolicy"):
            yield from ((item, text) for text in self.policy_errors(item))
        for item in self.of("ServiceMonitor"):
            services = [one for one in self.of("Service") if matches(
                item["spec"]["selector"], one["metadata"].get("labels", {}))]
            for endpoint in item["spec"]["endpoints"]:
                found = [one for one in services for port in one["spec"]["ports"]
                         if port["name"] == endpoint["port"]]
                if len(found) != 1:
                    yield item, (f"port {endpoint['port']} is that of "
                                 f"{len(found)} services: one scrape each")
                secrets = [endpoint["bearerTokenSecret"],
                           endpoint["tlsConfig"]["ca"]["secret"]]
                for secret in secrets:
                    if secret["key"] not in SECRETS.get(secret["name"], ()):
                        yield item, f"nobody makes {secret}"
        for item in self.of("PodMonitor"):
            for pod in self.selected(item["spec"]["selector"]) or [None]:
                for endpoint in item["spec"]["podMetricsEndpoints"]:
                    if pod is None or endpoint["port"] not in ports_of(pod):
                        yield item, f"port {endpoint['port']} leads nowhere"

    def policy_errors(self, item):
        pods = self.selected(item["spec"]["podSelector"])
        if not pods:
            yield "selects no pod"
        for rule in item["spec"].get("ingress", []):
            for port in rule.get("ports", []):
                for pod in pods:
                    if port["port"] not in ports_of(pod):
                        yield f"port {port['port']} leads nowhere"
        for rule in (item["spec"].get("ingress", []) +
                     item["spec"].get("egress", [])):
            for peer in rule.get("from", []) + rule.get("to", []):
                if not self.selected(peer["podSelector"]):
                    yield f"{peer} is nobody"

    def workload_errors(self, item, pod):
        spec, name = item["spec"], item["metadata"]["name"]
        if not matches(spec["selector"], pod["metadata"]["labels"]):
            yield "does not select its own pods"
        if item["kind"] == "StatefulSet":
            heads = [one for one in self.of("Service")
                     if one["metadata"]["name"] == spec["serviceName"]]
            if not heads or heads[0]["spec"].get("clusterIP") != "None":
                yield "serviceName is no headless service"
        body = pod["spec"]
        if body.get("serviceAccountName") not in self.names("ServiceAccount"):
            yield "no such service account"
        if body.get("automountServiceAccountToken") is not False:
            yield "gets a token for Kubernetes' API"
        for place in ("hostNetwork", "hostPID", "hostIPC"):
            if body.get(place):
                yield place
        context = body.get("securityContext", {})
        if not context.get("runAsNonRoot") or not context.get("runAsUser"):
            yield "may run as root"
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield "no seccomp profile"
        volumes = {volume["name"] for volume in body.get("volumes", [])}
        volumes |= {claim["metadata"]["name"]
                    for claim in spec.get("volumeClaimTemplates") or []}
        for volume in body.get("volumes", []):
            if "hostPath" in volume:
                yield "mounts a folder of the node"
            secret = volume.get("secret", {}).get("secretName")
            if secret and secret not in SECRETS:
                yield f"nobody makes the secret {secret}"
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and claim not in self.names("PersistentVolumeClaim"):
                yield f"no claim {claim}"
        mounted = set()
        for container in body["containers"]:
            yield from self.container_errors(container, volumes)
            mounted |= {mount["name"] for mount in container["volumeMounts"]}
        for unused in volumes - mounted:
            yield f"volume {unused} is mounted nowhere in {name}"

    def container_errors(self, container, volumes):
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            yield "may gain privileges"
        if context.get("capabilities", {}).get("drop") != ["ALL"]:
            yield "keeps capabilities"
        if not context.get("readOnlyRootFilesystem"):
            yield "writes its image"
        for mount in container["volumeMounts"]:
            if mount["name"] not in volumes:
                yield f"no volume {mount['name']}"
        resources = container.get("resources", {})
        if "memory" not in resources.get("limits", {}):
            yield "no limit of memory"
        if not {"cpu", "memory"} <= set(resources.get("requests", {})):
            yield "asks for no resources"
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            port = container.get(probe, {}).get("httpGet", {}).get("port")
            if port is not None and port not in ports:
                yield f"{probe} asks a port that is not there"
        if "livenessProbe" not in container:
            yield "no liveness probe"
        known = set()
        for variable in container.get("env", []):
            known.add(variable["name"])
            secret = variable.get("valueFrom", {}).get("secretKeyRef")
            if secret and secret["key"] not in SECRETS.get(secret["name"], ()):
                yield f"nobody makes {secret}"
        for argument in container.get("args", []):
            # Not "$$", which would be a dollar.
            if "$(" in argument:
                name = argument.split("$(")[1].split(")")[0]
                if name not in known:
                    yield f"{argument}: no such variable"


def load(path):
    with open(path) as file:
        return [item for item in yaml.safe_load_all(file) if item]


def problems(schemas, items, whole=True):
    for item in items:
        for text in schemas.errors(item):
            yield item, text
    if whole:
        yield from Objects(items).errors()


def main():
    schemas = Schemas(sys.argv[1])
    failed = False
    for path in sys.argv[2:]:
        items = load(path)
        for item, text in problems(schemas, items):
            failed = True
            print(f"{path}: {item['kind']} {item['metadata']['name']}: {text}")
        if len(items) < 5:
            failed = True
            print(f"{path}: only {len(items)} objects")
    return failed


if __name__ == "__main__":
    sys.exit(main())
