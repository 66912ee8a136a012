#ifndef COMERA_SERVER_SWEEP_SWEEP_SERVICE_H_
#define COMERA_SERVER_SWEEP_SWEEP_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "comera/v1/sweep_service.grpc.pb.h"
#include "server/auth/access.h"
#include "server/auth/unary_call.h"
#include "server/sweep/sweep_host.h"

namespace comera::server {

// The sweeps' API over a SweepHost: checks requests and callers, translates
// errors. Thread-safe; never blocks a gRPC thread. Errors: sweep_service.proto.
class SweepService : public v1::SweepService::CallbackService {
 public:
  // Both must outlive the server.
  SweepService(SweepHost* sweeps, AccessControl* access)
      : sweeps_(sweeps), access_(access) {}

  grpc::ServerUnaryReactor* CreateSweep(grpc::CallbackServerContext* context,
                                        const v1::CreateSweepRequest* request,
                                        v1::Sweep* response) override;
  grpc::ServerUnaryReactor* GetSweep(grpc::CallbackServerContext* context,
                                     const v1::GetSweepRequest* request,
                                     v1::Sweep* response) override;
  grpc::ServerUnaryReactor* ListSweeps(
      grpc::CallbackServerContext* context,
      const v1::ListSweepsRequest* request,
      v1::ListSweepsResponse* response) override;
  grpc::ServerUnaryReactor* CancelSweep(grpc::CallbackServerContext* context,
                                        const v1::CancelSweepRequest* request,
                                        v1::Sweep* response) override;
  grpc::ServerUnaryReactor* DeleteSweep(
      grpc::CallbackServerContext* context,
      const v1::DeleteSweepRequest* request,
      v1::DeleteSweepResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchSweepResponse>* WatchSweep(
      grpc::CallbackServerContext* context,
      const v1::WatchSweepRequest* request) override;
  grpc::ServerUnaryReactor* ComputeFront(grpc::CallbackServerContext* context,
                                         const v1::ComputeFrontRequest* request,
                                         v1::SweepFront* response) override;

 private:
  // Runs `change`, which answers the call, if the caller may change the sweep;
  // else refuses.
  template <typename Response>
  void ChangeOwnSweep(const std::string& name, const UnaryCall<Response>& call,
                      std::function<void()> change);
  // On the event loop.
  void AnswerFront(const v1::ComputeFrontRequest& request,
                   const UnaryCall<v1::SweepFront>& call);

  SweepHost* const sweeps_;
  AccessControl* const access_;
};

// A reactor that deletes itself. `sweeps` must outlive the server.
grpc::ServerWriteReactor<v1::WatchSweepResponse>* StartWatchSweep(
    SweepHost* sweeps, std::shared_ptr<const Caller> caller,
    const v1::WatchSweepRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SWEEP_SERVICE_H_
