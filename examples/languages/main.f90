! Which CUDA runtimes are in this process? In Fortran, by iso_c_binding.
program main
  use, intrinsic :: iso_c_binding
  implicit none

  ! The first fields of cudeploy_report, see cudeploy/runtime.h.
  type, bind(c) :: report_head
    integer(c_int32_t) :: driver_version, driver_error, states, copy_count
  end type

  interface
    integer(c_int) function cuda_runtime_get_version(version) bind(c, name="cudaRuntimeGetVersion")
      import c_int
      integer(c_int), intent(out) :: version
    end function
    integer(c_int) function library_runtime_version() bind(c)
      import c_int
    end function
    type(c_ptr) function cudeploy_report_new() bind(c)
      import c_ptr
    end function
    subroutine cudeploy_report_free(report) bind(c)
      import c_ptr
      type(c_ptr), value :: report
    end subroutine
  end interface

  integer(c_int) :: version
  type(c_ptr) :: report
  type(report_head), pointer :: head

  version = 0
  if (cuda_runtime_get_version(version) /= 0) version = 0
  print "('version ', i0, ', of the library ', i0)", version, library_runtime_version()
  report = cudeploy_report_new()
  if (.not. c_associated(report)) error stop "no memory for a report"
  call c_f_pointer(report, head)
  print "('copies ', i0, ', states ', i0)", head%copy_count, head%states
  call cudeploy_report_free(report)
end program
