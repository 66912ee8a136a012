// Writes schemas.json: the schemas of the kinds that deploy/kubernetes uses, as
// Kubernetes and the Prometheus operator publish them (Apache-2.0), out of npm
// packages (MIT) that carry them. Fields that no schema names are made errors.
//
//   npm install --no-save kubernetes-models@3.1.0 \
//     @kubernetes-models/prometheus-operator@1.6.3
//   node extract_schemas.js node_modules > schemas.json
const path = require("path");

const modules = path.resolve(process.argv[2] || "node_modules");
const kinds = [
  "AppsV1Deployment", "AppsV1StatefulSet", "AppsV1DaemonSet", "CoreV1Service",
  "CoreV1ConfigMap", "CoreV1Secret", "CoreV1Namespace",
  "CoreV1PersistentVolumeClaim", "CoreV1ServiceAccount",
  "PolicyV1PodDisruptionBudget", "NetworkingV1NetworkPolicy",
];

// The packages register their schemas with a validator, which is this here.
const schemas = {};
const register = (name, schema) => { schemas[name] = schema; };
class Model {
  static setSchema(type, name, add) { add(); }
}
const helpers = {
  createTypeMetaGuard: () => null, setDefaultModelValues: () => null,
};
const load = require("module")._load;
require("module")._load = function (request, ...rest) {
  if (request.endsWith("@kubernetes-models/validate")) return { register };
  if (request.endsWith("@kubernetes-models/base")) return { Model, ...helpers };
  return load.call(this, request, ...rest);
};
for (const kind of kinds) {
  require(`${modules}/kubernetes-models/_schemas/IoK8sApi${kind}.js`).addSchema();
}
for (const kind of ["ServiceMonitor", "PodMonitor"]) {
  const file = "monitoring.coreos.com/v1/" + kind;
  require(`${modules}/@kubernetes-models/prometheus-operator/${file}.js`);
}

function strict(schema) {
  if (Array.isArray(schema)) return schema.map(strict);
  if (schema === null || typeof schema !== "object") return schema;
  const result = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key === "description" || key === "format") continue;
    if (key === "properties") {
      result.properties = Object.fromEntries(
          Object.entries(value).map(([name, one]) => [name, strict(one)]));
    } else if (key === "$ref") {
      result.$ref = "#/definitions/" + value.replace(/#$/, "");
    } else {
      result[key] = strict(value);
    }
  }
  if (result.properties && !("additionalProperties" in result)) {
    result.additionalProperties = false;
  }
  // Not JSON Schema's: null is as good as nothing.
  if (result.nullable) {
    delete result.nullable;
    if (typeof result.type === "string") result.type = [result.type, "null"];
    if (result.enum) result.enum = [...result.enum, null];
  }
  return result;
}

const definitions = {};
for (const name of Object.keys(schemas).sort()) {
  definitions[name] = strict(schemas[name]);
}
// A line each, for those who compare versions.
console.log(
    "{\"definitions\":{\n" +
    Object.entries(definitions)
        .map(([name, one]) => `"${name}":${JSON.stringify(one)}`)
        .join(",\n") +
    "\n}}");
