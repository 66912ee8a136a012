// Writes the description of a task as JSON.
#include <string>

#include "common/json.h"
#include "worker/trainer/describe/describe.h"
#include "worker/trainer/planning/calibration.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json LayerJson(const LayerDescription& layer) {
  return {{"name", layer.name},
          {"class", layer.layer_class},
          {"path", layer.path},
          {"groups", layer.groups},
          {"rows", layer.rows},
          {"parameters", layer.parameters},
          {"bytes", layer.bytes},
          {"dense_parameters", layer.dense_parameters},
          {"multiply_adds", layer.multiply_adds},
          {"seconds", layer.seconds},
          {"dense_multiply_adds", layer.dense_multiply_adds},
          {"dense_seconds", layer.dense_seconds}};
}

Json MemoryJson(const MemoryDescription& memory) {
  return {{"parameters", memory.parameters},
          {"gradients", memory.gradients},
          {"moments", memory.moments},
          {"activations", memory.activations},
          {"scratch", memory.scratch},
          {"data", memory.data},
          {"process", memory.process},
          {"checkpoint", memory.checkpoint},
          {"peak", memory.peak()}};
}

}  // namespace

std::string DescriptionJson(const TaskDescription& d) {
  Json layers = Json::array();
  for (const LayerDescription& layer : d.layers) {
    layers.push_back(LayerJson(layer));
  }
  const Json json = {
      {"layers", layers},
      {"step",
       {{"forward_seconds", d.step.forward.seconds},
        {"backward_seconds", d.step.backward.seconds},
        {"optimizer_seconds", d.step.optimizer.seconds},
        {"seconds", d.step.seconds()},
        {"multiply_adds", d.step.multiply_adds()},
        {"dense_seconds", d.dense_seconds}}},
      {"memory", MemoryJson(d.memory)},
      {"parameters", d.parameters},
      {"dense_parameters", d.dense_parameters},
      {"batch_size", d.batch_size},
      {"accumulate", d.parts},
      {"ranks", d.ranks},
      {"machine", ParseOrderedJson(CalibrationJson(d.machine_name, d.machine))},
      {"calibrated", d.calibrated},
      {"assumptions", d.assumptions}};
  // Paths in assumptions may hold anything.
  return JsonText(json, 2);
}

}  // namespace comera::trainer
