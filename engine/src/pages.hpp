// Memory in large pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace hxmesh::engine {

/// Allocates on 2 MiB boundaries and asks for huge pages: state is touched at random, and a miss in the translation
/// buffer costs more than one in the cache, most of all in a virtual machine.
template <class T> struct PageAllocator {
    using value_type = T;
    static constexpr std::size_t kHuge = std::size_t{2} << 20;

    PageAllocator() = default;
    template <class U> explicit PageAllocator(const PageAllocator<U> &) {}

    T *allocate(std::size_t n) {
        const std::size_t size = (n * sizeof(T) + kHuge - 1) / kHuge * kHuge;
        void *memory = std::aligned_alloc(kHuge, size);
        if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
        (void)madvise(memory, size, MADV_HUGEPAGE);
#endif
        return static_cast<T *>(memory);
    }
    void deallocate(T *memory, std::size_t) { std::free(memory); }

    template <class U> bool operator==(const PageAllocator<U> &) const { return true; }
};

template <class T> using PageVector = std::vector<T, PageAllocator<T>>;

} // namespace hxmesh::engine
