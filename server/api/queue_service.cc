// Serves QueueService: each rpc is one operation of the coordinator.
#include "server/api/queue_service.h"

#include <string>

#include "common/status_macros.h"
#include "server/auth/unary_call.h"

namespace comera::server {
namespace {

// The queue's id as far as a name can be read; the coordinator refuses others.
std::string IdIn(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

}  // namespace

grpc::ServerUnaryReactor* QueueService::CreateQueue(
    grpc::CallbackServerContext* context, const v1::CreateQueueRequest* request,
    v1::Queue* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::Queue>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      host_->CommitThenReply<v1::Queue>(
                          [copy = *request](Coordinator* coordinator,
                                            absl::Time now, Effects* effects) {
                            return coordinator->CreateQueue(copy, now, effects);
                          },
                          call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* QueueService::GetQueue(
    grpc::CallbackServerContext* context, const v1::GetQueueRequest* request,
    v1::Queue* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Queue>& call) {
        RETURN_IF_ERROR(call.Check(Permission::kView, IdIn(request->name())));
        host_->RunQuery<v1::Queue>(
            [name = request->name()](const Coordinator& coordinator,
                                     absl::Time) {
              return coordinator.GetQueue(name);
            },
            call);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* QueueService::ListQueues(
    grpc::CallbackServerContext* context, const v1::ListQueuesRequest* request,
    v1::ListQueuesResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::ListQueuesResponse>& call) {
        RETURN_IF_ERROR(call.Check(Permission::kView));
        host_->RunQuery<v1::ListQueuesResponse>(
            [call, copy = *request](const Coordinator& coordinator,
                                    absl::Time) {
              return coordinator.ListQueues(
                  copy, [&](const std::string& queue) {
                    return call.Check(Permission::kView, queue).ok();
                  });
            },
            call);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* QueueService::UpdateQueue(
    grpc::CallbackServerContext* context, const v1::UpdateQueueRequest* request,
    v1::Queue* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::Queue>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      host_->CommitThenReply<v1::Queue>(
                          [copy = *request](Coordinator* coordinator,
                                            absl::Time, Effects* effects) {
                            return coordinator->UpdateQueue(copy, effects);
                          },
                          call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* QueueService::DeleteQueue(
    grpc::CallbackServerContext* context, const v1::DeleteQueueRequest* request,
    v1::DeleteQueueResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::DeleteQueueResponse>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      host_->CommitThenReply<v1::DeleteQueueResponse>(
                          [copy = *request](Coordinator* coordinator,
                                            absl::Time, Effects* effects) {
                            return coordinator->DeleteQueue(copy, effects);
                          },
                          call);
                      return absl::OkStatus();
                    });
}

}  // namespace comera::server
