// Memory for the page, and what a kernel that fails does: the module traps, and the page says so.
#include <cstddef>
#include <cstdlib>

extern "C" {

__attribute__((export_name("omegamax_allocate"))) void* omegamax_allocate(std::size_t bytes) {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
__attribute__((export_name("omegamax_release"))) void omegamax_release(void* memory) { std::free(memory); }

// Kernels throw only where there is no memory.
void* __cxa_allocate_exception(std::size_t) noexcept { std::abort(); }
void __cxa_throw(void*, void*, void (*)(void*)) { std::abort(); }

}  // extern "C"
