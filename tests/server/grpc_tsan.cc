// The system's gRPC, Abseil and protobuf are not instrumented, so
// ThreadSanitizer sees neither their locks nor that a reaction happens after
// the operation it reacts to. Left out are therefore accesses made inside those
// libraries, and races with a frame of gRPC (its header code included) in one
// of the stacks. What happens behind the reactors is checked without gRPC in
// coordinator_host_test.
#if defined(COMERA_TSAN)

extern "C" {

const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}

const char* __tsan_default_suppressions() {
  return "race:grpc::\n"
         "race:grpcpp/\n";
}

}  // extern "C"

#endif
