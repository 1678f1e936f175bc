// Where the words of a NumPy array lie, read from the array itself.
//
// The buffer protocol asks NumPy to describe the array anew in every call, which costs as much as everything else about
// handing out a known mask but the copying. The head of an array object is part of NumPy's stable binary interface.
// It is read only after one array was described by both, and they agreed.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace core {

class NumpyRow {
public:
    /// The words of a writable, contiguous, one-dimensional int32 array in the byte order of this machine; nothing if it
    /// is anything else, or not known to be that: then the buffer protocol must be asked. Needs the GIL.
    static std::span<int32_t> of(PyObject* object) {
        const Known& known = learned();
        if (Py_TYPE(object) != known.type) return {};
        const auto* array = reinterpret_cast<const Array*>(object);
        if (array->dtype != known.dtype || array->dimensions != 1 || (array->flags & kNeeded) != kNeeded) return {};
        return {static_cast<int32_t*>(array->data), static_cast<size_t>(*array->shape)};
    }

    /// Learns from an object that the buffer protocol described as such an array.
    static void learn(PyObject* object, const Py_buffer& described) {
        PyTypeObject* type = Py_TYPE(object);
        if (std::string_view(type->tp_name) != "numpy.ndarray") return;
        if (type->tp_basicsize < static_cast<Py_ssize_t>(sizeof(Array))) return;
        const auto* array = reinterpret_cast<const Array*>(object);
        const bool agrees = array->data == described.buf && array->dimensions == 1 && described.ndim == 1 &&
                            described.shape && *array->shape == *described.shape && (array->flags & kNeeded) == kNeeded;
        if (!agrees) return;
        Py_INCREF(array->dtype);  // so that no other comes to lie there
        Py_XDECREF(std::exchange(learned(), {type, array->dtype}).dtype);
    }

private:
    struct Array {  // the beginning of PyArrayObject_fields
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
