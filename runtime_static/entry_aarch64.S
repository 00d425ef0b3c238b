// One jump per API function of the CUDA runtime, and the binder that fills the jumps at the first call.
// Plain GNU assembler text without a preprocessor: `cudeploy link-kit` puts it into entries.cpp, followed by
// one line `cudeploy_entry INDEX, NAME` per function, names ascending. `cudeploy_branch_targets` is set before.
//
// A call of NAME arrives at __wrap_NAME (the linker's --wrap) and jumps through slot INDEX: three instructions,
// one less than an entry of the procedure linkage table. A slot holds its `first call` stub until the copy is
// bound. The original is __real_NAME. x16 and x17 are free here, as in any veneer (AAPCS64 6.1.1).

.macro cudeploy_landing
  .if cudeploy_branch_targets
    hint #34
  .endif
.endm

.macro cudeploy_jump index
  adrp x16, cudeploy_slots + 8 * \index
  ldr x16, [x16, #:lo12:cudeploy_slots + 8 * \index]
  br x16
.endm

.macro cudeploy_tables index, name
  .section .data.rel.local.cudeploy, "aw", %progbits
  .xword .Lcudeploy_first_\index
  .section .rodata.cudeploy_functions, "a", %progbits
  .word __real_\name - .
  .section .rodata.cudeploy_names, "a", %progbits
  .asciz "\name"
  .section .text.cudeploy, "ax", %progbits
  .p2align 2
.Lcudeploy_first_\index:
  cudeploy_landing
  mov w16, #\index
  b cudeploy_first_call
.endm

.macro cudeploy_entry index, name
  cudeploy_tables \index, \name
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, %function
__wrap_\name:
  cudeploy_landing
  cudeploy_jump \index
  .size __wrap_\name, . - __wrap_\name
.endm

// The call passes through the observer cudeploy_recorded_NAME of report.cpp, which goes on to cudeploy_next_NAME.
.macro cudeploy_recorded_entry index, name
  cudeploy_tables \index, \name
  .globl cudeploy_next_\name
  .hidden cudeploy_next_\name
  .type cudeploy_next_\name, %function
cudeploy_next_\name:
  cudeploy_landing
  cudeploy_jump \index
  .size cudeploy_next_\name, . - cudeploy_next_\name
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, %function
__wrap_\name:
  cudeploy_landing
  b cudeploy_recorded_\name
  .size __wrap_\name, . - __wrap_\name
.endm

.macro cudeploy_end count
  .section .text.cudeploy, "ax", %progbits
  .cfi_endproc
  .section .note.GNU-stack, "", %progbits
  .text
.endm

.hidden cudeploy_bind

  .section .data.rel.local.cudeploy, "aw", %progbits
  .p2align 3
  .globl cudeploy_slots
  .hidden cudeploy_slots
cudeploy_slots:
  .section .rodata.cudeploy_functions, "a", %progbits
  .p2align 2
  .globl cudeploy_functions
  .hidden cudeploy_functions
cudeploy_functions:
  .section .rodata.cudeploy_names, "a", %progbits
  .globl cudeploy_names
  .hidden cudeploy_names
cudeploy_names:

// void *cudeploy_bind(uint32_t index): binds the copy, returns where calls of name INDEX go.
// Arrives here: index in w16, everything else as the caller left it. Arguments of AAPCS64: x0-x7, q0-q7, x8
// (address of a large result), x18 (platform register, kept by the C code). Frame from sp: x29 x30 (16 bytes),
// x0-x8 and one unused (80 bytes), q0-q7 (128 bytes).
  .section .text.cudeploy, "ax", %progbits
  .p2align 4
  .type cudeploy_first_call, %function
cudeploy_first_call:
  .cfi_startproc
  stp x29, x30, [sp, #-224]!
  .cfi_def_cfa_offset 224
  .cfi_offset x29, -224
  .cfi_offset x30, -216
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  mov w0, w16
  bl cudeploy_bind
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size cudeploy_first_call, . - cudeploy_first_call

// All entries and stubs are frameless: one unwind description serves them all, until cudeploy_end.
  .p2align 4
  .cfi_startproc
