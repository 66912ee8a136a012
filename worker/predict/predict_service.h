#ifndef COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_
#define COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/predict_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "worker/predict/call_threads.h"
#include "worker/predict/served_models.h"
#include "worker/predict/unread_answers.h"

namespace comera::worker {

// Implements predict_service.proto. Calls without a ticket are served only to
// callers on this machine and to those with a verified certificate.
//
// A client that does not read its answer keeps no thread: gRPC has the answer,
// and the threads on which answers are made go on. A text's stream keeps its
// thread, and its place among the calls of ServedModels.
//
// Thread-safe. Outlives the gRPC server that it is registered with.
class PredictServiceImpl
    : public v1::PredictService::WithCallbackMethod_LoadModel<
          v1::PredictService::WithCallbackMethod_Predict<
              v1::PredictService::Service>> {
 public:
  struct Options {
    // The limits of calls without a deadline, or with a later one.
    absl::Duration most_time = absl::Minutes(5);
    absl::Duration most_generation_time = absl::Hours(1);
    // How long after its deadline a text whose client does not read is
    // cancelled. Other clients are told meanwhile that the time is over.
    absl::Duration cancel_after = absl::Seconds(5);
    // How long a client may take to read the answer to LoadModel and Predict,
    // and what answers that are not read may hold: beyond it, the oldest of
    // these calls are cancelled.
    absl::Duration read_within = absl::Minutes(2);
    int64_t most_unread_bytes = int64_t{128} << 20;
    // Calls of LoadModel and Predict beyond these are refused. They suffice for
    // what ServedModels lets run and wait, and for those that it refuses.
    int most_threads = 72;
    int most_waiting = 16;
  };

  // `models` must outlive it.
  explicit PredictServiceImpl(ServedModels* models)
      : PredictServiceImpl(models, Options()) {}
  PredictServiceImpl(ServedModels* models, const Options& options)
      : models_(models),
        options_(options),
        unread_(options.most_unread_bytes),
        threads_(static_cast<size_t>(options.most_threads),
                 static_cast<size_t>(options.most_waiting)) {}

  grpc::ServerUnaryReactor* LoadModel(grpc::CallbackServerContext* context,
                                      const v1::LoadModelRequest* request,
                                      v1::ServedModel* response) override;
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override;
  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override;

 private:
  // Makes an answer by `answer` on one of the threads, and sends it.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                   const google::protobuf::Message* request,
                                   const google::protobuf::Message* response,
                                   std::function<absl::Status()> answer);

  ServedModels* const models_;
  const Options options_;
  UnreadAnswers unread_;
  CallThreads threads_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_PREDICT_SERVICE_H_
