// A backend that computes nothing and adds up what each operation would cost.
#ifndef COMERA_KERNELS_COST_BACKEND_H_
#define COMERA_KERNELS_COST_BACKEND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "kernels/gpu_cost.h"
#include "kernels/machine_speed.h"

namespace comera::kernels {

// How often each work was done, with its operation's name.
using GpuWorks = std::map<std::pair<std::string, GpuWork>, int64_t>;

// The work of some operations, and the seconds that MachineSpeed makes of it.
struct OperationCosts {
  struct Entry {
    int64_t calls = 0;
    double multiply_adds = 0;  // in matrix products
    double bytes = 0;          // read and written by everything else
    double math = 0;           // exp, erf, tanh
    double random = 0;         // random numbers drawn
    double seconds = 0;
    double launches = 0;  // on a GPU
  };
  std::map<std::string, Entry> by_name;  // name of the operation
  Entry total;
  // On a GPU, all works.
  GpuWorks gpu_works;
  int64_t allocated_bytes = 0;  // now
  int64_t most_allocated_bytes = 0;
  // All allocations together; 0: as much as there are addresses.
  int64_t memory_limit_bytes = 0;

  // Forgets the work, not the memory.
  void Clear();
};

// Running a step on it costs next to nothing and tells what the same step
// takes on a real backend, whatever the code of the model does: the operations
// are those that it calls. Memory is address space that is never touched;
// copies to the host give zeros. `sizes` answers what workspace operations
// need. With the speed of a GPU operations make the launches that they make on
// one, and small ones run together (BeginTogether). `sizes` and `costs` outlive
// the backend. Not thread-safe.
std::unique_ptr<Backend> CreateCostBackend(Backend* sizes,
                                           const MachineSpeed& speed,
                                           OperationCosts* costs);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_COST_BACKEND_H_
