#include "server/api/queue_service.h"

#include <string>

#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

// The queue's id as far as a name can be read; the coordinator refuses others.
std::string IdIn(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

template <typename T>
std::function<void(absl::StatusOr<T>)> Finisher(
    grpc::ServerUnaryReactor* reactor, T* response) {
  return [reactor, response](absl::StatusOr<T> value) {
    if (value.ok()) *response = *std::move(value);
    reactor->Finish(ToRpcStatus(value.status()));
  };
}

}  // namespace

grpc::ServerUnaryReactor* QueueService::CreateQueue(
    grpc::CallbackServerContext* context, const v1::CreateQueueRequest* request,
    v1::Queue* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kAdminister, "", reactor) == nullptr)
    return reactor;
  host_->Operate<v1::Queue>(
      [copy = *request](Coordinator* coordinator, absl::Time now,
                        Effects* effects) {
        return coordinator->CreateQueue(copy, now, effects);
      },
      Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* QueueService::GetQueue(
    grpc::CallbackServerContext* context, const v1::GetQueueRequest* request,
    v1::Queue* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, IdIn(request->name()),
            reactor) == nullptr)
    return reactor;
  host_->Ask<v1::Queue>(
      [name = request->name()](const Coordinator& coordinator, absl::Time) {
        return coordinator.GetQueue(name);
      },
      Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* QueueService::ListQueues(
    grpc::CallbackServerContext* context, const v1::ListQueuesRequest* request,
    v1::ListQueuesResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kView, "", reactor) == nullptr)
    return reactor;
  host_->Ask<v1::ListQueuesResponse>(
      [copy = *request](const Coordinator& coordinator, absl::Time) {
        return coordinator.ListQueues(copy);
      },
      Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* QueueService::UpdateQueue(
    grpc::CallbackServerContext* context, const v1::UpdateQueueRequest* request,
    v1::Queue* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kAdminister, "", reactor) == nullptr)
    return reactor;
  host_->Operate<v1::Queue>(
      [copy = *request](Coordinator* coordinator, absl::Time,
                        Effects* effects) {
        return coordinator->UpdateQueue(copy, effects);
      },
      Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* QueueService::DeleteQueue(
    grpc::CallbackServerContext* context, const v1::DeleteQueueRequest* request,
    v1::DeleteQueueResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kAdminister, "", reactor) == nullptr)
    return reactor;
  host_->Operate<v1::DeleteQueueResponse>(
      [copy = *request](Coordinator* coordinator, absl::Time,
                        Effects* effects) {
        return coordinator->DeleteQueue(copy, effects);
      },
      Finisher(reactor, response));
  return reactor;
}

}  // namespace comera::server
