// Direct access to the data of a NumPy array.
//
// The buffer protocol makes NumPy describe the array anew in every call, which costs as much as all other work for a known
// mask except copying it. The head of an array object is part of NumPy's stable ABI.
// Invariant: the head is read only after one array was described by both ways and they agreed.
// Thread safety: the GIL guards it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace core {

class NumpyMask {
public:
    /// The words of a writable, contiguous, one-dimensional, native int32 array. Empty for any other object, and before
    /// `learn` succeeded: then use the buffer protocol. Needs the GIL.
    static std::span<int32_t> of(PyObject* object) {
        const Known& known = learned();
        if (Py_TYPE(object) != known.type) return {};
        const auto* array = reinterpret_cast<const Array*>(object);
        if (array->dtype != known.dtype || array->dimensions != 1 || (array->flags & kNeeded) != kNeeded) return {};
        return {static_cast<int32_t*>(array->data), static_cast<size_t>(*array->shape)};
    }

    /// Learns the type and dtype objects from an array that the buffer protocol described.
    static void learn(PyObject* object, const Py_buffer& described) {
        PyTypeObject* type = Py_TYPE(object);
        const nanobind::handle about(reinterpret_cast<PyObject*>(type));  // fields of a type are not in the stable ABI
        if (nanobind::cast<std::string_view>(about.attr("__module__")) != "numpy") return;
        if (nanobind::cast<std::string_view>(about.attr("__name__")) != "ndarray") return;
        if (nanobind::cast<size_t>(about.attr("__basicsize__")) < sizeof(Array)) return;
        const auto* array = reinterpret_cast<const Array*>(object);
        const bool agrees = array->data == described.buf && array->dimensions == 1 && described.ndim == 1 &&
                            described.shape && *array->shape == *described.shape && (array->flags & kNeeded) == kNeeded;
        if (!agrees) return;
        Py_INCREF(array->dtype);  // so that its address is not reused
        Py_XDECREF(std::exchange(learned(), {type, array->dtype}).dtype);
    }

private:
    struct Array {  // the first fields of PyArrayObject_fields
        PyObject_HEAD
        void* data;
        int dimensions;
        Py_ssize_t* shape;
        Py_ssize_t* strides;
        PyObject* base;
        PyObject* dtype;
        int flags;
    };
    static constexpr int kNeeded = 0x1 | 0x100 | 0x400;  // NPY_ARRAY_C_CONTIGUOUS, _ALIGNED, _WRITEABLE

    struct Known {
        PyTypeObject* type = nullptr;
        PyObject* dtype = nullptr;  // NumPy has one object for native int32
    };
    static Known& learned() {
        static Known known;
        return known;
    }
};

}  // namespace core
