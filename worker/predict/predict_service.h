#ifndef COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_
#define COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_

#include "comera/v1/predict_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "worker/predict/served_models.h"

namespace comera::worker {

// Implements predict_service.proto. Calls without a token are served only to
// callers on this machine and to those with a verified certificate.
// Thread-safe.
class PredictServiceImpl : public v1::PredictService::Service {
 public:
  // `models` must outlive it.
  explicit PredictServiceImpl(ServedModels* models) : models_(models) {}

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
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_
