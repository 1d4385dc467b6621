// Pages that a kernel protects, and the handler of the signal at the next access to them.
#pragma once

#include <signal.h>
#include <sys/mman.h>

#include "rows.h"

constexpr uintptr_t kPage = 4096;

inline Rows last;
inline uintptr_t first_page, protected_bytes;
inline bool computes_at_the_fault = false;

inline void Protect(const void* begin, uintptr_t bytes, int allowed) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(begin);
  first_page = (start + kPage - 1) / kPage * kPage;
  const uintptr_t end = (start + bytes) / kPage * kPage;
  protected_bytes = end > first_page ? end - first_page : 0;
  if (protected_bytes) mprotect(reinterpret_cast<void*>(first_page), protected_bytes, allowed);
}

inline void OnFault(int, siginfo_t* fault, void*) {
  const uintptr_t page = reinterpret_cast<uintptr_t>(fault->si_addr) / kPage * kPage;
  mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);  // perhaps that of an earlier call
  mprotect(reinterpret_cast<void*>(first_page), protected_bytes, PROT_READ | PROT_WRITE);
  if (computes_at_the_fault) Normalize(last);
}

inline void Handle() {
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}
