#ifndef COMERA_WORKER_PREDICT_TEXT_MODELS_H_
#define COMERA_WORKER_PREDICT_TEXT_MODELS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/predict_service.pb.h"

namespace comera::worker {

// A model that a caller may use.
struct ListedModel {
  // `jobs/{job}/models/{model}`.
  std::string name;
  // The user whose job trained it; empty where the coordinator asks for no tokens.
  std::string user;
  absl::Time created;
  // Whether its process runs.
  bool loaded = false;
};

// Models that continue texts. `ticket` is the caller's, empty for none; the
// coordinator judges it.
//
// Thread-safe.
class TextModels {
 public:
  virtual ~TextModels() = default;

  // Passes the text to `write`, piece by piece; the last piece has `finish`.
  // `gone`, asked a few times a second, says whether the caller has left.
  // Cancelled: the caller has left, or `write` has returned false. Other errors
  // are those of predict_service.proto.
  virtual absl::Status Generate(
      const v1::GenerateRequest& request, const std::string& ticket,
      absl::Time deadline, const std::function<bool()>& gone,
      const std::function<bool(const v1::GenerateResponse&)>& write) = 0;
  // Returns the newest models that the caller may see, newest job first, at
  // most 1000. `gone` as above: Cancelled. Other errors are those of ListModels
  // (model_service.proto).
  virtual absl::StatusOr<std::vector<ListedModel>> List(
      const std::string& ticket, absl::Time deadline,
      const std::function<bool()>& gone) = 0;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_TEXT_MODELS_H_
