#ifndef COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_
#define COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_

#include "absl/time/time.h"
#include "comera/v1/predict_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "worker/predict/served_models.h"

namespace comera::worker {

// Implements predict_service.proto. Calls without a token are served only to
// callers on this machine and to those with a verified certificate.
// Thread-safe.
class PredictServiceImpl : public v1::PredictService::Service {
 public:
  struct Options {
    // The limits of calls without a deadline, or with a later one.
    absl::Duration most_time = absl::Minutes(5);
    absl::Duration most_generation_time = absl::Hours(1);
    // How long after its deadline a text whose client does not read is
    // cancelled. Other clients are told meanwhile that the time is over.
    absl::Duration cancel_after = absl::Seconds(5);
  };

  // `models` must outlive it.
  explicit PredictServiceImpl(ServedModels* models)
      : PredictServiceImpl(models, Options()) {}
  PredictServiceImpl(ServedModels* models, const Options& options)
      : models_(models), options_(options) {}

  grpc::Status LoadModel(grpc::ServerContext* context,
                         const v1::LoadModelRequest* request,
                         v1::ServedModel* response) override;
  grpc::Status Predict(grpc::ServerContext* context,
                       const v1::PredictRequest* request,
                       v1::PredictResponse* response) override;
  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override;

 private:
  ServedModels* const models_;
  const Options options_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_
