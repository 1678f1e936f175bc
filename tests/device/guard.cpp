// A build of torch for the CPU has no guard for CUDA devices, and refuses to name one. This guard does nothing.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace c10::impl {
C10_REGISTER_GUARD_IMPL(CUDA, NoOpDeviceGuardImpl<DeviceType::CUDA>)
}
