#ifndef COMERA_TESTS_WORKER_TRAINER_MODEL_TIMING_BACKEND_H_
#define COMERA_TESTS_WORKER_TRAINER_MODEL_TIMING_BACKEND_H_

#include <map>
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace comera::kernels {

// Processor time (all threads together, so that other processes do not count)
// and calls of each operation; products by shape.
struct OperationTimes {
  struct Entry {
    double seconds = 0;
    int64_t calls = 0;
  };
  std::map<std::string, Entry> by_name;
};

// A backend that does what `backend` does and adds what each operation took,
// its completion included, to `times`. Both outlive it.
std::unique_ptr<Backend> CreateTimingBackend(Backend* backend,
                                             OperationTimes* times);

}  // namespace comera::kernels

#endif  // COMERA_TESTS_WORKER_TRAINER_MODEL_TIMING_BACKEND_H_
