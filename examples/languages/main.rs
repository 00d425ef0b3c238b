// Which CUDA runtimes are in this process? In Rust.
use std::ffi::{c_char, c_int, CStr};

/// The first fields of cudeploy_copy, see cudeploy/runtime.h, and its size.
#[repr(C)]
struct Copy {
    object: *const c_char,
    address: u64,
    role: i32,
    rest: [i32; 7],
}

/// The first fields of cudeploy_report.
#[repr(C)]
struct Report {
    driver_version: i32,
    driver_error: i32,
    states: i32,
    copy_count: i32,
    more: [i32; 4],
    copies: *const Copy,
}

extern "C" {
    fn cudaRuntimeGetVersion(version: *mut c_int) -> c_int;
    fn library_runtime_version() -> c_int;
    fn cudeploy_report_new() -> *mut Report;
    fn cudeploy_report_free(report: *mut Report);
}

fn main() {
    let mut version = 0;
    unsafe {
        if cudaRuntimeGetVersion(&mut version) != 0 {
            version = 0;
        }
        println!("version {}, of the library {}", version, library_runtime_version());
        let report = cudeploy_report_new();
        let facts = report.as_ref().expect("no memory for a report");
        for copy in std::slice::from_raw_parts(facts.copies, facts.copy_count as usize) {
            println!("{}: role {}", CStr::from_ptr(copy.object).to_string_lossy(), copy.role);
        }
        println!("copies {}, states {}", facts.copy_count, facts.states);
        cudeploy_report_free(report);
    }
}
