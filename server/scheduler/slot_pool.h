#ifndef COMERA_SERVER_SCHEDULER_SLOT_POOL_H_
#define COMERA_SERVER_SCHEDULER_SLOT_POOL_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "server/scheduler/decision.h"

namespace comera::server {

// The free slots of one device, and how gangs are packed into them: on the
// wanted workers, else on one machine, else in one rack, else on as few racks
// and machines as possible; always the tightest that does. Not thread-safe.
class SlotPool {
 public:
  // A worker without a rack label is its own rack as far as packing goes.
  // `free` is ascending and must outlive the pool.
  // `runs_programs`: programs of users' own may run there.
  void Add(int32_t worker, int32_t rack, bool runs_programs,
           const std::vector<int32_t>* free);

  int32_t free() const { return free_; }
  // The free slots on workers that run programs.
  int32_t free_for_programs() const { return free_for_programs_; }

  // Chooses slots for this many processes, which are then free no more. There
  // must be enough of them, for a `program` on workers that run programs.
  std::vector<MemberPlace> Allocate(int32_t processes,
                                    const std::vector<int32_t>& wanted,
                                    bool program = false);

 private:
  struct Room {
    int32_t rack = -1;
    const std::vector<int32_t>* slots = nullptr;
    // How many of the first slots are taken.
    int32_t taken = 0;
    bool runs_programs = false;
    int32_t free() const {
      return slots == nullptr ? 0 : static_cast<int32_t>(slots->size()) - taken;
    }
  };
  // (free slots, worker) of the workers with free slots.
  using ByFree = std::set<std::pair<int32_t, int32_t>>;
  struct Rack {
    int32_t free = 0;
    ByFree workers;
  };

  // Appends workers of `from` that together hold this many processes; returns
  // how many are missing.
  static int32_t Choose(ByFree from, int32_t processes,
                        std::vector<int32_t>* chosen);
  std::vector<int32_t> ChooseWorkers(int32_t processes,
                                     const std::vector<int32_t>& wanted,
                                     bool program) const;
  void Use(int32_t worker, int32_t count, std::vector<MemberPlace>* places);

  int32_t free_ = 0;
  int32_t free_for_programs_ = 0;
  // The free slots of each worker.
  std::vector<Room> rooms_;
  ByFree workers_;
  std::vector<Rack> racks_;
  // (free slots, rack).
  ByFree racks_by_free_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_SLOT_POOL_H_
