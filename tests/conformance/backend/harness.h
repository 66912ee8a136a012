// Runs rows of operation tests on a backend.
#ifndef COMERA_TESTS_CONFORMANCE_BACKEND_HARNESS_H_
#define COMERA_TESTS_CONFORMANCE_BACKEND_HARNESS_H_

#include <functional>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {

// A kind of backend; `threads` is ignored where it means nothing.
using BackendFactory = std::function<std::unique_ptr<Backend>(int threads)>;

// Registers with GoogleTest, under `name`, every row of every operation and the
// checks of refused operands. Call before RUN_ALL_TESTS.
//
// A row passes if, for packed rows and for rows with gaps between them, each
// with one thread and with two (of a sparing row the first with one thread
// only, the second with two):
//  - what it writes is the reference's to the row's tolerance,
//  - what it reads, the gaps, and the canaries around each operand are intact,
//  - a second run gives the same bits,
//  - one thread and two agree to the tolerance.
void RegisterBackendConformance(const std::string& name,
                                BackendFactory factory);

// Registers the rows of the operations that are matrix products or made of
// them, for a backend that rounds their operands: results may differ from the
// reference's by `tolerance` of the largest. All rows are sparing: layouts and
// orders are tested by the first suite.
void RegisterRoundedProducts(const std::string& name, BackendFactory factory,
                             double tolerance);

// Registers the rows of the operations that have a form in bfloat16, for a
// backend with has_bf16 (through_bf16.h); likewise.
void RegisterStorageInBf16(const std::string& name, BackendFactory factory,
                           double tolerance);

// Registers refused operands and memory, a part of the first (refusals.cc).
void RegisterRefusals(const std::string& name, BackendFactory factory);
// Registers the products and activations of a backend with has_bf16 (bf16.cc).
void RegisterBf16(const std::string& name, BackendFactory factory);
// Registers operations between BeginTogether and EndTogether (together.cc).
void RegisterTogether(const std::string& name, BackendFactory factory);

}  // namespace comera::kernels

#endif  // COMERA_TESTS_CONFORMANCE_BACKEND_HARNESS_H_
