//! A prefetch hint to the processor, for walks through more memory than a cache holds.

/// Prefetches a structure of up to two cache lines.
#[inline(always)]
pub fn fetch<T>(at: &T) {
    let first = std::ptr::from_ref(at).cast::<i8>();
    for address in [first, first.wrapping_add(size_of::<T>().saturating_sub(1))] {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which changes nothing that a program can see.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}
