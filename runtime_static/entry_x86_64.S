# One jump per API function of the CUDA runtime, and the binder that fills the jumps at the first call.
# Plain GNU assembler text without a preprocessor: `cudeploy link-kit` puts it into entries.cpp, followed by
# one line `cudeploy_entry INDEX, NAME` per function, names ascending. `cudeploy_branch_targets` is set before.
#
# A call of NAME arrives at __wrap_NAME (the linker's --wrap), jumps through slot INDEX, and so costs one
# instruction. A slot holds its `first call` stub until the copy is bound. The original is __real_NAME.

.macro cudeploy_landing
  .if cudeploy_branch_targets
    endbr64
  .endif
.endm

.macro cudeploy_tables index, name
  .section .data.rel.local.cudeploy, "aw", @progbits
  .quad .Lcudeploy_first_calls + \index * (5 + 11 * cudeploy_branch_targets)
  .section .rodata.cudeploy_functions, "a", @progbits
  .long __real_\name - .
  .section .rodata.cudeploy_names, "a", @progbits
  .asciz "\name"
  .section .text.cudeploy, "ax", @progbits
.endm

.macro cudeploy_entry index, name
  cudeploy_tables \index, \name
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, @function
__wrap_\name:
  cudeploy_landing
  jmp *cudeploy_slots + 8 * \index(%rip)
  .size __wrap_\name, . - __wrap_\name
.endm

# The call passes through the observer cudeploy_recorded_NAME of report.cpp, which goes on to cudeploy_next_NAME.
.macro cudeploy_recorded_entry index, name
  cudeploy_tables \index, \name
  .globl cudeploy_next_\name
  .hidden cudeploy_next_\name
  .type cudeploy_next_\name, @function
cudeploy_next_\name:
  cudeploy_landing
  jmp *cudeploy_slots + 8 * \index(%rip)
  .size cudeploy_next_\name, . - cudeploy_next_\name
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, @function
__wrap_\name:
  cudeploy_landing
  jmp cudeploy_recorded_\name
  .size __wrap_\name, . - __wrap_\name
.endm

# Behind the entries, their first calls. `call` is half as long as naming the index, which follows from the return
# address. Where the processor guards return addresses (a shadow stack), each stub names its index and jumps.
.macro cudeploy_end count
  .cfi_endproc
  .balign 16
  .cfi_startproc
.Lcudeploy_first_calls:
  .set cudeploy_index, 0
  .rept \count
    .if cudeploy_branch_targets
      .balign 16
      endbr64
      movl $cudeploy_index, %r11d
      jmp cudeploy_first_call
    .else
      call cudeploy_first_call
    .endif
    .set cudeploy_index, cudeploy_index + 1
  .endr
  .cfi_endproc
  .section .note.GNU-stack, "", @progbits
  .text
.endm

.hidden cudeploy_bind

  .section .data.rel.local.cudeploy, "aw", @progbits
  .balign 8
  .globl cudeploy_slots
  .hidden cudeploy_slots
cudeploy_slots:
  .section .rodata.cudeploy_functions, "a", @progbits
  .balign 4
  .globl cudeploy_functions
  .hidden cudeploy_functions
cudeploy_functions:
  .section .rodata.cudeploy_names, "a", @progbits
  .globl cudeploy_names
  .hidden cudeploy_names
cudeploy_names:

# void *cudeploy_bind(uint32_t index): binds the copy, returns where calls of name INDEX go.
# Arrives here: everything as the caller left it but for %r11, or the return address into the stubs on the stack.
# Arguments of the psABI: %rdi %rsi %rdx %rcx %r8 %r9, %xmm0-7, %al (vector count of a variadic call), %r10 (static
# chain). No function of the runtime takes a 256- or 512-bit vector, so the upper parts of the vector registers hold
# no argument.
# Frame below %rbp: eight general registers (64 bytes), eight vectors (128 bytes), all 16-aligned.
  .section .text.cudeploy, "ax", @progbits
  .balign 16
  .type cudeploy_first_call, @function
cudeploy_first_call:
  .cfi_startproc
  .if cudeploy_branch_targets == 0
    .cfi_def_cfa_offset 16
    popq %r11
    .cfi_def_cfa_offset 8
  .endif
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $192, %rsp
  movq %rdi, -8(%rbp)
  movq %rsi, -16(%rbp)
  movq %rdx, -24(%rbp)
  movq %rcx, -32(%rbp)
  movq %r8, -40(%rbp)
  movq %r9, -48(%rbp)
  movq %rax, -56(%rbp)
  movq %r10, -64(%rbp)
  movaps %xmm0, -80(%rbp)
  movaps %xmm1, -96(%rbp)
  movaps %xmm2, -112(%rbp)
  movaps %xmm3, -128(%rbp)
  movaps %xmm4, -144(%rbp)
  movaps %xmm5, -160(%rbp)
  movaps %xmm6, -176(%rbp)
  movaps %xmm7, -192(%rbp)
  .if cudeploy_branch_targets
    movl %r11d, %edi
  .else
    # The stub is 5 bytes: (return address - start) / 5 - 1, by the inverse of 5 modulo 2^32.
    leaq .Lcudeploy_first_calls + 5(%rip), %rax
    subq %rax, %r11
    imull $-858993459, %r11d, %edi
  .endif
  call cudeploy_bind
  movq %rax, %r11
  movq -8(%rbp), %rdi
  movq -16(%rbp), %rsi
  movq -24(%rbp), %rdx
  movq -32(%rbp), %rcx
  movq -40(%rbp), %r8
  movq -48(%rbp), %r9
  movq -56(%rbp), %rax
  movq -64(%rbp), %r10
  movaps -80(%rbp), %xmm0
  movaps -96(%rbp), %xmm1
  movaps -112(%rbp), %xmm2
  movaps -128(%rbp), %xmm3
  movaps -144(%rbp), %xmm4
  movaps -160(%rbp), %xmm5
  movaps -176(%rbp), %xmm6
  movaps -192(%rbp), %xmm7
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc
  .size cudeploy_first_call, . - cudeploy_first_call

# All entries and stubs are frameless: one unwind description serves them all, until cudeploy_end.
  .balign 16
  .cfi_startproc
