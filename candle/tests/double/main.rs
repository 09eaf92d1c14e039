//! Tests that need the double of libamdhip64 (tests/double of the folder above) and cannot run on a GPU. Without the
//! double there are none.
use candle_core::Result;
use libtest_mimic::{Arguments, Trial};

mod calls;
#[allow(dead_code)]
#[path = "../../examples/llama_parallel/config.rs"]
mod config;
mod machines;
#[allow(dead_code)]
#[path = "../../examples/llama_parallel/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../../examples/llama_parallel/weights.rs"]
mod weights;

type Test = fn() -> Result<()>;

fn main() {
    let mut arguments = Arguments::from_args();
    // The double's counters belong to the whole process.
    arguments.test_threads = Some(1);
    let tests: [(_, Test); 18] = [
        ("each_op_is_its_launches", calls::each_op_is_its_launches),
        ("an_elementwise_chain_is_its_launches", calls::an_elementwise_chain_is_its_launches),
        ("a_batch_norm_is_one_launch", calls::a_batch_norm_is_one_launch),
        ("a_group_norm_is_two_launches", calls::a_group_norm_is_two_launches),
        ("a_decode_step_is_its_launches", calls::a_decode_step_is_its_launches),
        ("a_step_of_the_parallel_llama_is_its_launches", calls::a_step_of_the_parallel_llama_is_its_launches),
        ("activations_are_quantized_once", calls::activations_are_quantized_once),
        ("a_branch_is_normed_in_the_launch_of_the_next_norm", calls::a_branch_is_normed_in_the_launch_of_the_next_norm),
        ("products_of_one_input_are_one_launch", calls::products_of_one_input_are_one_launch),
        ("a_cache_grows_in_place", calls::a_cache_grows_in_place),
        ("without_a_gpu", machines::without_a_gpu),
        ("with_a_gpu_of_another_architecture", machines::with_a_gpu_of_another_architecture),
        ("with_a_build_that_has_no_kernels", machines::with_a_build_that_has_no_kernels),
        ("with_an_event_that_fails", machines::with_an_event_that_fails),
        ("with_a_reduction_whose_event_fails", machines::with_a_reduction_whose_event_fails),
        ("with_a_fork", machines::with_a_fork),
        ("with_little_memory", machines::with_little_memory),
        ("with_two_gpus", machines::with_two_gpus),
    ];
    let is_there = std::env::var_os("HIP_DOUBLE_ARCH").is_some();
    let trials = tests.into_iter().filter(|_| is_there);
    libtest_mimic::run(&arguments, trials.map(|(name, test)| Trial::test(name, move || Ok(test()?))).collect()).exit();
}
