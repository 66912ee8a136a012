// Stands in for comera-server: serves on --listen, tells its address in
// --port_file, knows one unfinished job until that is cancelled.
#include <pthread.h>
#include <signal.h>

#include <iostream>
#include <string>

#include "common/files.h"
#include "tests/client/fake_training_service.h"

namespace {

using comera::client::FakeTrainingService;

std::string Flag(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(name + "=", 0) == 0) {
      return argument.substr(name.size() + 1);
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const std::string cancelled = Flag(argc, argv, "--data_dir") + "/cancelled";
  FakeTrainingService service;
  service.list_jobs = [&](const comera::v1::ListJobsRequest&,
                          comera::v1::ListJobsResponse* response) {
    if (!comera::ReadFile(cancelled).ok()) {
      response->add_jobs()->set_name("jobs/left");
    }
    return grpc::Status::OK;
  };
  service.cancel_job = [&](const comera::v1::CancelJobRequest& request,
                           comera::v1::Job*) {
    if (!comera::WriteFileAtomically(cancelled, request.name()).ok()) {
      return grpc::Status(grpc::StatusCode::INTERNAL, "disk");
    }
    return grpc::Status::OK;
  };
  const std::string address = service.Start(Flag(argc, argv, "--listen"));
  std::cerr << "serving " << address << std::endl;
  if (!comera::WriteFileAtomically(Flag(argc, argv, "--port_file"), address)
           .ok()) {
    return 1;
  }
  int number = 0;
  sigwait(&signals, &number);
  return 0;
}
