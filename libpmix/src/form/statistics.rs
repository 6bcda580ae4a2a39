//! The structures of resource usage (4.1 to 6.0).

use modex::types::{DiskStats, NetStats, NodeStats, ProcStats};

use super::record::record;
use super::{Count16, Letter, Moment, Pid, Plain, Str};
use crate::types::{pmix_disk_stats_t, pmix_net_stats_t, pmix_node_stats_t, pmix_proc_stats_t, pmix_proc_t};

record! {
    ProcStats as pmix_proc_stats_t {
        node = node: Str,
        proc = proc: pmix_proc_t,
        pid = pid: Pid,
        command = cmd: Str,
        state = state: Letter,
        time = time: Moment,
        priority = priority: Plain<i32>,
        threads = num_threads: Count16,
        pss = pss: Plain<f32>,
        vsize = vsize: Plain<f32>,
        rss = rss: Plain<f32>,
        processor = processor: Count16,
        sample_time = sample_time: Moment,
        ; kept { percent_cpu, peak_vsize, }
    }
    DiskStats as pmix_disk_stats_t {
        disk = disk: Str,
        ; rows {
            counters = [
                num_reads_completed, num_reads_merged, num_sectors_read, milliseconds_reading, num_writes_completed,
                num_writes_merged, num_sectors_written, milliseconds_writing, num_ios_in_progress, milliseconds_io,
                weighted_milliseconds_io
            ],
        }
    }
    NetStats as pmix_net_stats_t {
        interface = net_interface: Str,
        ; rows {
            counters = [
                num_bytes_recvd, num_packets_recvd, num_recv_errs, num_bytes_sent, num_packets_sent, num_send_errs
            ],
        }
    }
    NodeStats as pmix_node_stats_t {
        node = node: Str,
        sample_time = sample_time: Moment,
        ; lists {
            disks = diskstats[ndiskstats]: pmix_disk_stats_t,
            interfaces = netstats[nnetstats]: pmix_net_stats_t,
        }
        ; rows {
            figures = [
                la, la5, la15, total_mem, free_mem, buffers, cached, swap_cached, swap_total, swap_free, mapped
            ],
        }
    }
}
