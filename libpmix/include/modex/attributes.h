/* Part of modex. Licensed under MIT or Apache-2.0, at your choice.
 * Generated from spec/attributes.tsv; to rewrite: MODEX_BLESS=1 cargo test --test abi.
 *
 * Attribute names, each with the type of its value and what it means. */
#ifndef MODEX_ATTRIBUTES_H
#define MODEX_ATTRIBUTES_H


/* alloc */
#define PMIX_ALLOC_BANDWIDTH "pmix.alloc.bw" /* float: bandwidth wanted, Mbit/s */
#define PMIX_ALLOC_BEGIN "pmix.alloc.begin" /* char*: do not start before this time */
#define PMIX_ALLOC_CHILD_SEP "pmix.alloc.sep" /* bool: allocation outlives its parent */
#define PMIX_ALLOC_CPU_LIST "pmix.alloc.cpulist" /* char*: specific CPUs wanted */
#define PMIX_ALLOC_DEPENDENCY "pmix.alloc.depend" /* char*: jobs that must finish before the start */
#define PMIX_ALLOC_EXCLUDE "pmix.alloc.exclude" /* char*: nodes to avoid */
#define PMIX_ALLOC_FABRIC "pmix.alloc.net" /* pmix_data_array_t*: fabric resources wanted */
#define PMIX_ALLOC_FABRIC_ENDPTS "pmix.alloc.endpts" /* size_t: endpoints per process */
#define PMIX_ALLOC_FABRIC_ENDPTS_NODE "pmix.alloc.endpts.nd" /* size_t: endpoints per node */
#define PMIX_ALLOC_FABRIC_ID "pmix.alloc.netid" /* char*: key under which the fabric result is kept */
#define PMIX_ALLOC_FABRIC_PLANE "pmix.alloc.netplane" /* char*: fabric plane wanted */
#define PMIX_ALLOC_FABRIC_QOS "pmix.alloc.netqos" /* char*: service class */
#define PMIX_ALLOC_FABRIC_SEC_KEY "pmix.alloc.nsec" /* pmix_byte_object_t: fabric key material */
#define PMIX_ALLOC_FABRIC_TYPE "pmix.alloc.nettype" /* char*: transport wanted */
#define PMIX_ALLOC_ID "pmix.alloc.id" /* char*: host's name for the allocation */
#define PMIX_ALLOC_IMAGE "pmix.alloc.image" /* char*: software image for the nodes */
#define PMIX_ALLOC_INHERITANCE "pmix.alloc.inhrt" /* pmix_alloc_inheritance_t: inheritance of the resources at job end */
#define PMIX_ALLOC_LEND "pmix.alloc.lend" /* char*: time until lent resources come back */
#define PMIX_ALLOC_MAU "pmix.alloc.mau" /* pmix_data_array_t*: smallest allocatable unit, set by the scheduler */
#define PMIX_ALLOC_MEM_SIZE "pmix.alloc.msize" /* float: memory wanted, MB */
#define PMIX_ALLOC_NETWORK "pmix.alloc.net" /* pmix_data_array_t*: deprecated; old name of ALLOC_FABRIC */
#define PMIX_ALLOC_NETWORK_ENDPTS "pmix.alloc.endpts" /* size_t: deprecated; old name of ALLOC_FABRIC_ENDPTS */
#define PMIX_ALLOC_NETWORK_ENDPTS_NODE "pmix.alloc.endpts.nd" /* size_t: deprecated; old name of ALLOC_FABRIC_ENDPTS_NODE */
#define PMIX_ALLOC_NETWORK_ID "pmix.alloc.netid" /* char*: deprecated; old name of ALLOC_FABRIC_ID */
#define PMIX_ALLOC_NETWORK_PLANE "pmix.alloc.netplane" /* char*: deprecated; old name of ALLOC_FABRIC_PLANE */
#define PMIX_ALLOC_NETWORK_QOS "pmix.alloc.netqos" /* char*: deprecated; old name of ALLOC_FABRIC_QOS */
#define PMIX_ALLOC_NETWORK_SEC_KEY "pmix.alloc.nsec" /* pmix_byte_object_t: deprecated; old name of ALLOC_FABRIC_SEC_KEY */
#define PMIX_ALLOC_NETWORK_TYPE "pmix.alloc.nettype" /* char*: deprecated; old name of ALLOC_FABRIC_TYPE */
#define PMIX_ALLOC_NODE_LIST "pmix.alloc.nlist" /* char*: specific nodes wanted */
#define PMIX_ALLOC_NOSHELL "pmix.alloc.noshell" /* bool: return at once without running anything */
#define PMIX_ALLOC_NOT_WAITING "pmix.alloc.notwait" /* bool: requester does not block for the result */
#define PMIX_ALLOC_NUM_BLOCKS "pmix.alloc.nblks" /* uint64_t: number of such blocks */
#define PMIX_ALLOC_NUM_CPUS "pmix.alloc.ncpus" /* uint64_t: number of CPUs wanted */
#define PMIX_ALLOC_NUM_CPU_LIST "pmix.alloc.ncpulist" /* char*: CPUs wanted per node */
#define PMIX_ALLOC_NUM_NODES "pmix.alloc.nnodes" /* uint64_t: number of nodes wanted */
#define PMIX_ALLOC_PREEMPTIBLE "pmix.alloc.preempt" /* bool: jobs may be preempted by default */
#define PMIX_ALLOC_PROPERTY "pmix.alloc.property" /* char*: name of a property */
#define PMIX_ALLOC_QUEUE "pmix.alloc.queue" /* char*: queue meant */
#define PMIX_ALLOC_RELEASABLE "pmix.alloc.releasable" /* bool: whole allocation may be given back */
#define PMIX_ALLOC_REQ_ID "pmix.alloc.reqid" /* char*: caller's name for the request */
#define PMIX_ALLOC_RES_BLOCK "pmix.alloc.blk" /* char*: resource block to allocate */
#define PMIX_ALLOC_SHARE "pmix.alloc.share" /* bool: resources may be shared outside the requester */
#define PMIX_ALLOC_STATUS "pmix.alloc.status" /* pmix_status_t: outcome of an allocation request */
#define PMIX_ALLOC_TARGET "pmix.alloc.tgt" /* char*: namespace that gets the resources */
#define PMIX_ALLOC_TIME "pmix.alloc.time" /* char*: how long the allocation lasts */
#define PMIX_ALLOC_WAIT_ALL_NODES "pmix.alloc.waitall" /* bool: wait for every node before use */
#define PMIX_ALLOC_WARN_TIMEOUT "pmix.alloc.wtmo" /* uint32_t: seconds of warning before expiry */

/* app */
#define PMIX_APPLDR "pmix.aldr" /* pmix_rank_t: lowest rank of the application */
#define PMIX_APP_ARGV "pmix.app.argv" /* char*: joined argv of the application */
#define PMIX_APP_MAP_REGEX "pmix.apmap.regex" /* char*: encoded result of the layout */
#define PMIX_APP_MAP_TYPE "pmix.apmap.type" /* char*: layout name such as cyclic */
#define PMIX_APP_SIZE "pmix.app.size" /* uint32_t: procs in the application */
#define PMIX_PREFIX "pmix.prefix" /* char*: installation prefix on remote nodes */
#define PMIX_WDIR "pmix.wdir" /* char*: working directory */

/* container */
#define PMIX_APP_INFO_ARRAY "pmix.app.arr" /* pmix_data_array_t*: bundle of data of one application */
#define PMIX_JOB_INFO_ARRAY "pmix.job.arr" /* pmix_data_array_t*: bundle of job-level data */
#define PMIX_NODE_INFO_ARRAY "pmix.node.arr" /* pmix_data_array_t*: bundle of data of one node */
#define PMIX_PROC_DATA "pmix.pdata" /* pmix_data_array_t*: deprecated; old name of PROC_INFO_ARRAY; rank comes first */
#define PMIX_PROC_INFO_ARRAY "pmix.pdata" /* pmix_data_array_t*: bundle of data of one rank */
#define PMIX_SERVER_INFO_ARRAY "pmix.srv.arr" /* pmix_data_array_t*: bundle of data of one server */
#define PMIX_SESSION_INFO_ARRAY "pmix.ssn.arr" /* pmix_data_array_t*: bundle of session-level data */

/* debug */
#define PMIX_DEBUG_APP_DIRECTIVES "pmix.dbg.adirs" /* pmix_data_array_t*: deprecated; debug directives for the application */
#define PMIX_DEBUG_DAEMONS_PER_NODE "pmix.dbg.dpnd" /* uint16_t: debugger daemons per node */
#define PMIX_DEBUG_DAEMONS_PER_PROC "pmix.dbg.dpproc" /* uint16_t: debugger daemons per process */
#define PMIX_DEBUG_JOB "pmix.dbg.job" /* char*: deprecated; namespace to debug */
#define PMIX_DEBUG_JOB_DIRECTIVES "pmix.dbg.jdirs" /* pmix_data_array_t*: deprecated; debug directives for the job */
#define PMIX_DEBUG_TARGET "pmix.dbg.tgt" /* pmix_proc_t*: process to debug */

/* directive */
#define PMIX_ABORT_NON_ZERO_TERM "pmix.abnz" /* bool: a non-zero exit kills the job */
#define PMIX_ACCESS_GRPIDS "pmix.agids" /* pmix_data_array_t*: gids that may read published data */
#define PMIX_ACCESS_PERMISSIONS "pmix.aperms" /* pmix_data_array_t*: access rules for published data */
#define PMIX_ACCESS_USERIDS "pmix.auids" /* pmix_data_array_t*: uids that may read published data */
#define PMIX_ADD_HOST "pmix.addhost" /* char*: hosts to add to the allocation */
#define PMIX_ADD_HOSTFILE "pmix.addhostfile" /* char*: file listing hosts to add */
#define PMIX_AGGREGATE_HELP "pmix.agg.help" /* bool: merge identical help texts */
#define PMIX_ALLOW_CLIENT_CLONES "pmix.allow.clones" /* bool: several processes forked from one client may connect */
#define PMIX_ALL_CLONES_PARTICIPATE "pmix.clone.part" /* bool: every clone of the caller must take part */
#define PMIX_APP_INFO "pmix.app.info" /* bool: the key belongs to the application realm */
#define PMIX_ATTR_UNDEF "pmix.undef" /* none: key that stands for "no attribute" */
#define PMIX_BFROPS_MODULE "pmix.bfrops.mod" /* char*: internal; buffer module of a namespace */
#define PMIX_BIND_PROGRESS_THREAD "pmix.bind.pt" /* char*: CPU ranges to pin the library thread to */
#define PMIX_BIND_REQUIRED "pmix.bind.reqd" /* bool: fail if the library thread cannot be pinned */
#define PMIX_BREAKPOINT "pmix.brkpnt" /* char*: name of the place where procs hold */
#define PMIX_CLIENT_ATTRIBUTES "pmix.client.attrs" /* char*: functions whose client attributes are wanted */
#define PMIX_CLIENT_FUNCTIONS "pmix.client.fns" /* char*: client functions supported */
#define PMIX_COLLECTIVE_ALGO "pmix.calgo" /* char*: deprecated; algorithms wanted */
#define PMIX_COLLECTIVE_ALGO_REQD "pmix.calreqd" /* bool: deprecated; only the algorithms wanted are acceptable */
#define PMIX_COLLECT_DATA "pmix.collect" /* bool: fence also exchanges all committed data */
#define PMIX_COLLECT_GENERATED_JOB_INFO "pmix.collect.gen" /* bool: fence also spreads job data that servers computed locally */
#define PMIX_COLOCATE_NPERNODE "pmix.colnum.node" /* uint16_t: new procs per target node */
#define PMIX_COLOCATE_NPERPROC "pmix.colnum.proc" /* uint16_t: new procs per target proc */
#define PMIX_COLOCATE_PROCS "pmix.colproc" /* pmix_data_array_t*: procs next to which the new ones go */
#define PMIX_COSPAWN_APP "pmix.cospawn" /* bool: application does not belong to the job's world */
#define PMIX_CPUS_PER_PROC "pmix.cpuperproc" /* uint32_t: CPUs for each rank */
#define PMIX_CPU_LIST "pmix.cpulist" /* char*: CPUs the job may use */
#define PMIX_CRED_TYPE "pmix.sec.ctype" /* char*: credential kinds wanted, or kind delivered */
#define PMIX_CRYPTO_KEY "pmix.sec.key" /* pmix_byte_object_t: deprecated; key material */
#define PMIX_DATA_SCOPE "pmix.scope" /* pmix_scope_t: scope in which the value must be searched */
#define PMIX_DEBUGGER_DAEMONS "pmix.debugger" /* bool: the application is a set of debugger daemons */
#define PMIX_DEVICE_ID "pmix.dev.id" /* char*: device meant or assigned */
#define PMIX_DEVICE_TYPE "pmix.dev.type" /* pmix_device_type_t: device classes meant */
#define PMIX_DISPLAY_ALLOCATION "pmix.dispalloc" /* bool: print the allocation */
#define PMIX_DISPLAY_MAP "pmix.dispmap" /* bool: print the placement */
#define PMIX_DISPLAY_MAP_DETAILED "pmix.dispmapdet" /* bool: print the placement in full detail */
#define PMIX_DISPLAY_PARSEABLE_OUTPUT "pmix.dispparse" /* bool: print in machine-friendly form */
#define PMIX_DISPLAY_PROCESSORS "pmix.dispcpus" /* char*: print usable CPUs of the listed hosts */
#define PMIX_DISPLAY_TOPOLOGY "pmix.disptopo" /* char*: print the topology of the listed hosts */
#define PMIX_DO_NOT_LAUNCH "pmix.dnl" /* bool: prepare everything but start nothing */
#define PMIX_DSTPATH "pmix.dstpath" /* char*: deprecated; location of data-store files */
#define PMIX_EMBED_BARRIER "pmix.embed.barrier" /* bool: do a fence first */
#define PMIX_ENUM_VALUE "pmix.descr.enum" /* char*: valid values (attribute description) */
#define PMIX_ENVARS_HARVESTED "pmix.evar.hvstd" /* bool: requester already collected the environment */
#define PMIX_EXEC_AGENT "pmix.exec.agnt" /* char*: program daemons must exec in place of the application, which becomes its argument */
#define PMIX_EXTERNAL_AUX_EVENT_BASE "pmix.evaux" /* void*: event loop supplied by the host for side jobs such as signal capture */
#define PMIX_EXTERNAL_PROGRESS "pmix.evext" /* bool: functions of the program run inside calls for progress alone */
#define PMIX_FORKEXEC_AGENT "pmix.fe.agnt" /* char*: agent command used to start local procs */
#define PMIX_GDS_MODULE "pmix.gds.mod" /* char*: deprecated; data-store modules wanted */
#define PMIX_GET_POINTER_VALUES "pmix.get.pntrs" /* bool: return a pointer into the library's store */
#define PMIX_GET_REFRESH_CACHE "pmix.get.refresh" /* bool: drop cached remote data and fetch again */
#define PMIX_GET_STATIC_VALUES "pmix.get.static" /* bool: fill the caller-provided value object */
#define PMIX_GPU_SUPPORT "pmix.gpu.support" /* bool: turn the library's GPU support on or off */
#define PMIX_HOST "pmix.host" /* char*: hosts to place procs on */
#define PMIX_HOSTFILE "pmix.hostfile" /* char*: file listing hosts to place procs on */
#define PMIX_HOST_ATTRIBUTES "pmix.host.attrs" /* char*: functions whose host attributes are wanted */
#define PMIX_HOST_FUNCTIONS "pmix.host.fns" /* char*: functions the host supports */
#define PMIX_IMMEDIATE "pmix.immediate" /* bool: server answers from its own data; the host is not asked */
#define PMIX_INDEX_ARGV "pmix.indxargv" /* bool: append the rank to argv[0] */
#define PMIX_JOB_CONTINUOUS "pmix.continuous" /* bool: failed procs restart at once */
#define PMIX_JOB_INFO "pmix.job.info" /* bool: the key belongs to the job realm */
#define PMIX_JOB_RECOVERABLE "pmix.recover" /* bool: application can recover from failures */
#define PMIX_JOB_TIMEOUT "pmix.job.time" /* int: seconds the job may run */
#define PMIX_KEEPALIVE_PIPE "PMIX_KEEPALIVE_PIPE" /* env: environment variable with the fd number that the launcher watches to detect death of its parent */
#define PMIX_LAUNCHER "pmix.tool.launcher" /* bool: the tool launches processes, so it needs its own rendezvous files */
#define PMIX_LAUNCHER_DAEMON "pmix.lnch.dmn" /* char*: program to run in place of the launcher's usual daemon */
#define PMIX_LAUNCHER_RENDEZVOUS_FILE "pmix.tool.lncrnd" /* char*: where the launcher writes its contact information */
#define PMIX_LAUNCHER_RNDZ_FILE "PMIX_LAUNCHER_RNDZ_FILE" /* env: environment variable naming the file in which the launcher must write its contact data */
#define PMIX_LAUNCHER_RNDZ_URI "PMIX_LAUNCHER_RNDZ_URI" /* env: environment variable with the address of the parent's server for a launched tool */
#define PMIX_LAUNCH_DIRECTIVES "pmix.lnch.dirs" /* pmix_data_array_t*: all launcher directives packed in one retrievable value */
#define PMIX_LOCAL_COLLECTIVE_STATUS "pmix.loc.col.st" /* pmix_status_t: result of the local part of a collective */
#define PMIX_LOCAL_PARTICIPANTS "pmix.lcl.part" /* pmix_data_array_t*: local procs that joined the collective */
#define PMIX_MAPPER "pmix.mapper" /* char*: deprecated; mapper to use */
#define PMIX_MAP_BLOB "pmix.mblob" /* pmix_byte_object_t: deprecated; packed process locations */
#define PMIX_MAX_RESTARTS "pmix.maxrestarts" /* uint32_t: restart limit */
#define PMIX_MAX_VALUE "pmix.descr.maxval" /* varies: largest valid value (attribute description) */
#define PMIX_MEM_ALLOC_KIND "pmix.alloc.mkind" /* char*: memory kinds in use */
#define PMIX_MERGE_STDERR_STDOUT "pmix.mergeerrout" /* bool: deprecated; old form of IOF_MERGE_STDERR_STDOUT */
#define PMIX_MIN_VALUE "pmix.descr.minval" /* varies: smallest valid value (attribute description) */
#define PMIX_MYSERVER_URI "pmix.mysrvr.uri" /* char*: contact URI of this process's own listener */
#define PMIX_NODE_INFO "pmix.node.info" /* bool: the key belongs to the node realm */
#define PMIX_NOHUP "pmix.nohup" /* bool: processes started for the tool survive its departure */
#define PMIX_NON_PMI "pmix.nonpmi" /* bool: deprecated; procs will not use PMIx */
#define PMIX_NOTIFY_COMPLETION "pmix.notecomp" /* bool: tell the parent when the child job ends */
#define PMIX_NOTIFY_JOB_EVENTS "pmix.note.jev" /* bool: raise job start, launch-complete and end events */
#define PMIX_NOTIFY_LAUNCH "pmix.note.lnch" /* bool: deprecated; tell the requester when the job runs */
#define PMIX_NOTIFY_PROC_ABNORMAL_TERMINATION "pmix.noteabproc" /* bool: raise an event when a process ends badly */
#define PMIX_NOTIFY_PROC_TERMINATION "pmix.noteproc" /* bool: raise an event whenever a process ends */
#define PMIX_NO_OVERSUBSCRIBE "pmix.noover" /* bool: never exceed the slots */
#define PMIX_NO_PROCS_ON_HEAD "pmix.nolocal" /* bool: leave the head node empty */
#define PMIX_OPTIONAL "pmix.optional" /* bool: look only in the caller's own store */
#define PMIX_OUTPUT_NOCOPY "pmix.nocopy" /* bool: deprecated; old form of IOF_FILE_ONLY */
#define PMIX_OUTPUT_TO_DIRECTORY "pmix.outdir" /* char*: deprecated; old form of IOF_OUTPUT_TO_DIRECTORY */
#define PMIX_OUTPUT_TO_FILE "pmix.outfile" /* char*: deprecated; old form of IOF_OUTPUT_TO_FILE */
#define PMIX_PERSISTENCE "pmix.persist" /* pmix_persistence_t: lifetime of published data */
#define PMIX_PNET_SETUP_APP "pmix.pnet.setapp" /* pmix_byte_object_t: internal; network setup blob for remote nodes */
#define PMIX_PPR "pmix.ppr" /* char*: procs per named resource */
#define PMIX_PRELOAD_BIN "pmix.preloadbin" /* bool: copy the binaries to the nodes first */
#define PMIX_PRELOAD_FILES "pmix.preloadfiles" /* char*: files to copy to the nodes first */
#define PMIX_PRIMARY_SERVER "pmix.pri.srvr" /* bool: make the newly attached server the default one */
#define PMIX_PROGRAMMING_MODEL "pmix.pgm.model" /* char*: programming model being announced, e.g. MPI */
#define PMIX_PROGRESS_THREAD_FLUSH "pmix.evflush" /* bool: drain queued work before a progress thread is stopped */
#define PMIX_PROGRESS_THREAD_NAME "pmix.evname" /* char*: which progress thread to stop; none named = every one */
#define PMIX_PSET_MEMBERS "pmix.pset.mems" /* pmix_data_array_t*: process IDs that belong to a process set */
#define PMIX_PSET_NAME "pmix.pset.nm" /* char*: name of a process set */
#define PMIX_PTY_TERMIO "pmix.pty.termio" /* pmix_byte_object_t: terminal settings for that terminal */
#define PMIX_PTY_WSIZE "pmix.pty.wsize" /* pmix_byte_object_t: window size for that terminal */
#define PMIX_QUALIFIED_VALUE "pmix.qual.val" /* pmix_data_array_t*: value stored together with qualifiers that distinguish it */
#define PMIX_RANGE "pmix.range" /* pmix_data_range_t: visibility of published data or events */
#define PMIX_RECONNECT_SERVER "pmix.cnct.recon" /* bool: deprecated; switch to another server */
#define PMIX_REGISTER_NODATA "pmix.reg.nodata" /* bool: register only the namespace name */
#define PMIX_REPORT_BINDINGS "pmix.repbind" /* bool: print the bindings */
#define PMIX_REPORT_CHILD_SEP "pmix.rptchildsep" /* bool: child-job exit codes are reported apart */
#define PMIX_REPORT_PHYSICAL_CPUS "pmix.repphys.cpus" /* bool: print bindings with physical CPU numbers */
#define PMIX_REQUESTOR "pmix.requestor" /* pmix_proc_t*: process on whose behalf a relayed operation is made */
#define PMIX_REQUESTOR_IS_CLIENT "pmix.req.client" /* bool: the requester is a client */
#define PMIX_REQUESTOR_IS_TOOL "pmix.req.tool" /* bool: the requester is a tool */
#define PMIX_REQUIRED_KEY "pmix.req.key" /* char*: key that must exist before a direct-modex reply is sent */
#define PMIX_RESOURCE_BLOCK_NAME "pmix.resblkname" /* char*: resource block meant by the query */
#define PMIX_RUNTIME_OPTIONS "pmix.runopt" /* char*: launcher-specific run directives */
#define PMIX_SET_SESSION_CWD "pmix.ssncwd" /* bool: start in the session directory */
#define PMIX_SHOW_LAUNCH_PROGRESS "pmix.showprog" /* bool: report launch progress from time to time */
#define PMIX_SINGLETON "pmix.singleton" /* char*: "nspace.rank" of the singleton process this server was started for */
#define PMIX_SINGLE_LISTENER "pmix.sing.listnr" /* bool: deprecated; only one listening socket */
#define PMIX_SOCKET_MODE "pmix.sockmode" /* uint32_t: deprecated; permission bits of the socket */
#define PMIX_SORTED_PROC_ARRAY "pmix.sorted.parr" /* bool: the proc array is already sorted */
#define PMIX_SPAWN_CHILD_SEP "pmix.spchildsep" /* bool: child job outlives its parent */
#define PMIX_SPAWN_PTY "pmix.spawn.pty" /* bool: give the process a pseudo terminal */
#define PMIX_SPAWN_TARGET "pmix.spwn.tgt" /* varies: allocation(s) to place the job in */
#define PMIX_SPAWN_TIMEOUT "pmix.sp.time" /* int: seconds the spawn may take */
#define PMIX_SPAWN_TOOL "pmix.spwn.tool" /* bool: the new job is a tool */
#define PMIX_STDIN_TGT "pmix.stdin" /* pmix_proc_t*: process that receives stdin */
#define PMIX_SYSTEM_TMPDIR "pmix.sys.tmpdir" /* char*: directory for system-wide (tool) rendezvous files */
#define PMIX_TAG_OUTPUT "pmix.tagout" /* bool: deprecated; old form of IOF_TAG_OUTPUT */
#define PMIX_THREADING_MODEL "pmix.threads" /* char*: threading package the model uses */
#define PMIX_TIMEOUT "pmix.timeout" /* int: seconds before giving up, 0 = never */
#define PMIX_TIMEOUT_REPORT_STATE "pmix.tim.state" /* bool: add process states to the timeout report */
#define PMIX_TIMEOUT_STACKTRACES "pmix.tim.stack" /* bool: add stack traces to the timeout report */
#define PMIX_TIMESTAMP_OUTPUT "pmix.tsout" /* bool: deprecated; old form of IOF_TIMESTAMP_OUTPUT */
#define PMIX_USOCK_DISABLE "pmix.usock.disable" /* bool: deprecated; no legacy Unix socket */
#define PMIX_VERSION_INFO "pmix.version" /* char*: PMIx version text of the connecting peer */
#define PMIX_VERSION_NUMERIC "pmix.vers.num" /* uint32_t: library version as a number */
#define PMIX_WAIT "pmix.wait" /* int: server holds the request until enough values exist */
#define PMIX_WAIT_FOR_CONNECTION "pmix.wait.conn" /* bool: block until the connection exists */
#define PMIX_WDIR_USER_SPECIFIED "pmix.wdir.user" /* bool: the working directory came from the user */

/* env */
#define PMIX_ADD_ENVAR "pmix.envar.add" /* pmix_envar_t*: set a variable unless present */
#define PMIX_APPEND_ENVAR "pmix.envar.appnd" /* pmix_envar_t*: put a value at the end of a variable */
#define PMIX_FIRST_ENVAR "pmix.envar.first" /* pmix_envar_t*: make sure a value is first in a variable */
#define PMIX_PREPEND_ENVAR "pmix.envar.prepnd" /* pmix_envar_t*: put a value in front of a variable */
#define PMIX_SET_ENVAR "pmix.envar.set" /* pmix_envar_t*: set a variable, replacing it */
#define PMIX_UNSET_ENVAR "pmix.envar.unset" /* char*: remove a variable */

/* event */
#define PMIX_EVENT_ACTION_TIMEOUT "pmix.evtimeout" /* int: seconds until the RM acts */
#define PMIX_EVENT_AFFECTED_PROC "pmix.evproc" /* pmix_proc_t*: process the event is about */
#define PMIX_EVENT_AFFECTED_PROCS "pmix.evaffected" /* pmix_data_array_t*: processes the event is about */
#define PMIX_EVENT_BASE "pmix.evbase" /* struct event_base *: deprecated; event loop to use in place of the library thread */
#define PMIX_EVENT_CUSTOM_RANGE "pmix.evrange" /* pmix_data_array_t*: explicit recipients of the event */
#define PMIX_EVENT_DO_NOT_CACHE "pmix.evnocache" /* bool: server must not keep the event for late handlers */
#define PMIX_EVENT_HDLR_AFTER "pmix.evafter" /* char*: run just after the named handler */
#define PMIX_EVENT_HDLR_APPEND "pmix.evappend" /* bool: put at the tail of its class */
#define PMIX_EVENT_HDLR_BEFORE "pmix.evbefore" /* char*: run just before the named handler */
#define PMIX_EVENT_HDLR_FIRST "pmix.evfirst" /* bool: handler runs before every other */
#define PMIX_EVENT_HDLR_FIRST_IN_CATEGORY "pmix.evfirstcat" /* bool: handler runs first within its class */
#define PMIX_EVENT_HDLR_LAST "pmix.evlast" /* bool: handler runs after every other */
#define PMIX_EVENT_HDLR_LAST_IN_CATEGORY "pmix.evlastcat" /* bool: handler runs last within its class */
#define PMIX_EVENT_HDLR_NAME "pmix.evname" /* char*: label of the handler */
#define PMIX_EVENT_HDLR_PREPEND "pmix.evprepend" /* bool: put at the head of its class */
#define PMIX_EVENT_NON_DEFAULT "pmix.evnondef" /* bool: skip default handlers */
#define PMIX_EVENT_NO_TERMINATION "pmix.evnoterm" /* bool: deprecated; handler: no need to end */
#define PMIX_EVENT_ONESHOT "pmix.evone" /* bool: remove the handler after one call */
#define PMIX_EVENT_PROXY "pmix.evproxy" /* pmix_proc_t*: server that raised the event */
#define PMIX_EVENT_RETURN_OBJECT "pmix.evobject" /* void*: caller object handed back to its own handler */
#define PMIX_EVENT_SILENT_TERMINATION "pmix.evsilentterm" /* bool: no event on normal job end */
#define PMIX_EVENT_STAYS_LOCAL "pmix.evlocal" /* bool: do not forward the event to the host */
#define PMIX_EVENT_TERMINATE_JOB "pmix.evterm.job" /* bool: RM will end the job */
#define PMIX_EVENT_TERMINATE_NODE "pmix.evterm.node" /* bool: RM will end all procs of the node */
#define PMIX_EVENT_TERMINATE_PROC "pmix.evterm.proc" /* bool: RM will end this process */
#define PMIX_EVENT_TERMINATE_SESSION "pmix.evterm.sess" /* bool: RM will end the session */
#define PMIX_EVENT_TEXT_MESSAGE "pmix.evtext" /* char*: human-readable explanation */
#define PMIX_EVENT_TIMESTAMP "pmix.evtstamp" /* time_t: time of occurrence */
#define PMIX_EVENT_WANT_TERMINATION "pmix.evterm" /* bool: deprecated; handler: should end */

/* fabric */
#define PMIX_FABRIC_COST_MATRIX "pmix.fab.cm" /* pointer: pairwise communication cost table */
#define PMIX_FABRIC_DEVICE_ADDRESS "pmix.fabdev.addr" /* char*: link-level address */
#define PMIX_FABRIC_DEVICE_BUS_TYPE "pmix.fabdev.btyp" /* char*: bus */
#define PMIX_FABRIC_DEVICE_COORDINATES "pmix.fab.coord" /* pmix_geometry_t: coordinates of the device */
#define PMIX_FABRIC_DEVICE_DRIVER "pmix.fabdev.driver" /* char*: driver */
#define PMIX_FABRIC_DEVICE_FIRMWARE "pmix.fabdev.fmwr" /* char*: firmware version */
#define PMIX_FABRIC_DEVICE_INDEX "pmix.fabdev.idx" /* uint32_t: row in the cost table */
#define PMIX_FABRIC_DEVICE_MTU "pmix.fabdev.mtu" /* size_t: largest frame, bytes */
#define PMIX_FABRIC_DEVICE_NAME "pmix.fabdev.nm" /* char*: OS name */
#define PMIX_FABRIC_DEVICE_PCI_DEVID "pmix.fabdev.pcidevid" /* char*: PCI address */
#define PMIX_FABRIC_DEVICE_SPEED "pmix.fabdev.speed" /* size_t: link rate, bit/s */
#define PMIX_FABRIC_DEVICE_STATE "pmix.fabdev.state" /* pmix_link_state_t: port state */
#define PMIX_FABRIC_DEVICE_TYPE "pmix.fabdev.type" /* char*: link technology */
#define PMIX_FABRIC_DEVICE_VENDOR "pmix.fabdev.vndr" /* char*: maker of the device */
#define PMIX_FABRIC_DEVICE_VENDORID "pmix.fabdev.vendid" /* char*: maker's product id */
#define PMIX_FABRIC_DIMS "pmix.fab.dims" /* uint32_t: dimensions */
#define PMIX_FABRIC_GROUPS "pmix.fab.grps" /* char*: groups of nodes */
#define PMIX_FABRIC_IDENTIFIER "pmix.fab.id" /* char*: name of the fabric */
#define PMIX_FABRIC_INDEX "pmix.fab.idx" /* size_t: number of the fabric */
#define PMIX_FABRIC_NUM_DEVICES "pmix.fab.nverts" /* size_t: devices in the whole fabric */
#define PMIX_FABRIC_PLANE "pmix.fab.plane" /* char*: plane meant or reported; all planes as an array of names */
#define PMIX_FABRIC_SHAPE "pmix.fab.shape" /* pmix_data_array_t*: size of each dimension */
#define PMIX_FABRIC_SHAPE_STRING "pmix.fab.shapestr" /* char*: size of each dimension as text */
#define PMIX_FABRIC_SWITCH "pmix.fab.switch" /* char*: switch meant or reported; in answers an array of names */
#define PMIX_FABRIC_VENDOR "pmix.fab.vndr" /* char*: maker of the fabric */

/* group */
#define PMIX_GROUP_ADD_MEMBERS "pmix.grp.add" /* pmix_data_array_t*: members that do not call construct */
#define PMIX_GROUP_ASSIGN_CONTEXT_ID "pmix.grp.actxid" /* bool: host must supply a context number */
#define PMIX_GROUP_BOOTSTRAP "pmix.grp.btstrp" /* size_t: number of callers when the list is unknown */
#define PMIX_GROUP_CONTEXT_ID "pmix.grp.ctxid" /* size_t: the context number */
#define PMIX_GROUP_FINAL_MEMBERSHIP_ORDER "pmix.grp.finord" /* pmix_data_array_t*: order of the final member list */
#define PMIX_GROUP_FT_COLLECTIVE "pmix.grp.ftcoll" /* bool: dead members are taken out of the count */
#define PMIX_GROUP_ID "pmix.grp.id" /* char*: name of the group */
#define PMIX_GROUP_INFO "pmix.grp.info" /* pmix_data_array_t*: data to give to every member */
#define PMIX_GROUP_INFO_ARRAY "pmix.grp.infoarray" /* pmix_data_array_t*: one bundle per contributing member */
#define PMIX_GROUP_JOB_INFO "pmix.grp.jinfo" /* pmix_byte_object_t: job data needed by new members */
#define PMIX_GROUP_LEADER "pmix.grp.ldr" /* bool: caller leads the group */
#define PMIX_GROUP_LOCAL_ONLY "pmix.grp.lcl" /* bool: all members are on this node */
#define PMIX_GROUP_MEMBERSHIP "pmix.grp.mbrs" /* pmix_data_array_t*: members of the group */
#define PMIX_GROUP_NOTIFY_TERMINATION "pmix.grp.notterm" /* bool: members get an event when one ends */
#define PMIX_GROUP_OPTIONAL "pmix.grp.opt" /* bool: missing members are not an error */

/* iof */
#define PMIX_FWD_ENVIRONMENT "pmix.fwdenv" /* bool: pass the local environment along */
#define PMIX_FWD_STDDIAG "pmix.fwd.stddiag" /* bool: send the procs' diagnostic stream to the caller */
#define PMIX_FWD_STDERR "pmix.fwd.stderr" /* bool: send the procs' stderr to the caller */
#define PMIX_FWD_STDIN "pmix.fwd.stdin" /* bool: send the caller's stdin to the procs */
#define PMIX_FWD_STDOUT "pmix.fwd.stdout" /* bool: send the procs' stdout to the caller */
#define PMIX_IOF_BUFFERING_SIZE "pmix.iof.bsize" /* uint32_t: bytes to gather before delivery */
#define PMIX_IOF_BUFFERING_TIME "pmix.iof.btime" /* uint32_t: seconds to gather before delivery */
#define PMIX_IOF_CACHE_SIZE "pmix.iof.csize" /* uint32_t: bytes the server may cache per channel */
#define PMIX_IOF_COMPLETE "pmix.iof.cmp" /* bool: the source closed the channel */
#define PMIX_IOF_COPY "pmix.iof.cpy" /* bool: tool receives a copy */
#define PMIX_IOF_DROP_NEWEST "pmix.iof.new" /* bool: overflow discards new bytes */
#define PMIX_IOF_DROP_OLDEST "pmix.iof.old" /* bool: overflow discards old bytes */
#define PMIX_IOF_FILE_ONLY "pmix.iof.fonly" /* bool: nothing to the terminal */
#define PMIX_IOF_FILE_PATTERN "pmix.iof.fpt" /* bool: file name is a pattern used as is */
#define PMIX_IOF_LOCAL_OUTPUT "pmix.iof.local" /* bool: server writes to its own stdout/stderr */
#define PMIX_IOF_MERGE_STDERR_STDOUT "pmix.iof.mrg" /* bool: one stream for stdout and stderr */
#define PMIX_IOF_OUTPUT_RAW "pmix.iof.raw" /* bool: deliver without line buffering */
#define PMIX_IOF_OUTPUT_TO_DIRECTORY "pmix.iof.dir" /* char*: write into a directory tree per rank */
#define PMIX_IOF_OUTPUT_TO_FILE "pmix.iof.file" /* char*: write into one file per rank */
#define PMIX_IOF_PUSH_STDIN "pmix.iof.stdin" /* bool: library reads the tool's stdin and forwards it */
#define PMIX_IOF_RANK_OUTPUT "pmix.iof.rank" /* bool: prefix with the rank */
#define PMIX_IOF_REDIRECT "pmix.iof.redir" /* bool: tool receives it instead */
#define PMIX_IOF_STOP "pmix.iof.stop" /* bool: deprecated; stop forwarding */
#define PMIX_IOF_TAG_DETAILED_OUTPUT "pmix.iof.tagdet" /* bool: prefix also with host and pid */
#define PMIX_IOF_TAG_FULLNAME_OUTPUT "pmix.iof.tagfull" /* bool: prefix with the full namespace */
#define PMIX_IOF_TAG_OUTPUT "pmix.iof.tag" /* bool: prefix with job, rank and channel */
#define PMIX_IOF_TIMESTAMP_OUTPUT "pmix.iof.ts" /* bool: prefix with the time */
#define PMIX_IOF_XML_OUTPUT "pmix.iof.xml" /* bool: write as XML */

/* job */
#define PMIX_ANL_MAP "pmix.anlmap" /* char*: process mapping in the PMI-1/2 vector notation */
#define PMIX_BINDTO "pmix.bindto" /* char*: binding policy */
#define PMIX_CMD_LINE "pmix.cmd.line" /* char*: command line of the job */
#define PMIX_DEBUG_STOP_IN_APP "pmix.dbg.notify" /* varies: chosen ranks hold at a point of the application's choice */
#define PMIX_DEBUG_STOP_IN_INIT "pmix.dbg.init" /* varies: hold the chosen ranks inside PMIx_Init */
#define PMIX_DEBUG_STOP_ON_EXEC "pmix.dbg.exec" /* varies: hold the chosen ranks at exec */
#define PMIX_HOSTNAME_KEEP_FQDN "pmix.fqdn" /* bool: node names keep their domain part */
#define PMIX_IOF_INHERIT "pmix.iof.inhrt" /* bool: child job uses its parent's forwarding */
#define PMIX_JOBID "pmix.jobid" /* char*: scheduler's job identifier */
#define PMIX_JOB_NUM_APPS "pmix.job.napps" /* uint32_t: applications in the job */
#define PMIX_JOB_SIZE "pmix.job.size" /* uint32_t: procs in the job */
#define PMIX_JOB_TERM_STATUS "pmix.job.term.status" /* pmix_status_t: final status of the job */
#define PMIX_MAPBY "pmix.mapby" /* char*: placement policy */
#define PMIX_NODE_LIST "pmix.nlist" /* char*: nodes that run procs of the namespace */
#define PMIX_NODE_MAP "pmix.nmap" /* char*: encoded list of the job's nodes */
#define PMIX_NODE_MAP_RAW "pmix.nmap.raw" /* char*: plain list of the job's nodes */
#define PMIX_NODE_OVERSUBSCRIBED "pmix.ndosub" /* bool: the job has more procs on this node than slots */
#define PMIX_NPROC_OFFSET "pmix.offset" /* pmix_rank_t: global rank of the job's rank 0 */
#define PMIX_NSDIR "pmix.nsdir" /* char*: scratch directory of the job */
#define PMIX_NSPACE "pmix.nspace" /* char*: namespace name */
#define PMIX_NUM_NODES "pmix.num.nodes" /* uint32_t: nodes currently hosting procs of the realm */
#define PMIX_PARENT_ID "pmix.parent" /* pmix_proc_t*: process that spawned this job */
#define PMIX_PERSONALITY "pmix.pers" /* char*: programming-model personality the launcher should apply */
#define PMIX_PROC_MAP "pmix.pmap" /* char*: encoded ranks per node */
#define PMIX_PROC_MAP_RAW "pmix.pmap.raw" /* char*: plain ranks per node, semicolon between nodes */
#define PMIX_RANKBY "pmix.rankby" /* char*: rank-numbering policy */
#define PMIX_SPAWNED "pmix.spawned" /* bool: process was created by PMIx_Spawn */
#define PMIX_SPAWN_TREE_ACTIVE "pmix.spwn.actv" /* uint32_t: live jobs left in that spawn tree */
#define PMIX_SPAWN_TREE_ROOT "pmix.spwn.root" /* char*: namespace at the root of the spawn ancestry */
#define PMIX_TOPOLOGY_SIGNATURE "pmix.toposig" /* char*: deprecated; short topology fingerprint */

/* jobctrl */
#define PMIX_CLEANUP_EMPTY "pmix.clnup.empty" /* bool: delete only empty directories */
#define PMIX_CLEANUP_IGNORE "pmix.clnup.ignore" /* char*: files to keep */
#define PMIX_CLEANUP_LEAVE_TOPDIR "pmix.clnup.lvtop" /* bool: keep the top directory */
#define PMIX_CLEANUP_RECURSIVE "pmix.clnup.recurse" /* bool: descend into subdirectories */
#define PMIX_JOB_CTRL_CANCEL "pmix.jctrl.cancel" /* char*: withdraw an earlier request */
#define PMIX_JOB_CTRL_CHECKPOINT "pmix.jctrl.ckpt" /* char*: checkpoint under the given name */
#define PMIX_JOB_CTRL_CHECKPOINT_EVENT "pmix.jctrl.ckptev" /* bool: trigger the checkpoint by event */
#define PMIX_JOB_CTRL_CHECKPOINT_METHOD "pmix.jctrl.ckmethod" /* pmix_data_array_t*: ways the application can checkpoint */
#define PMIX_JOB_CTRL_CHECKPOINT_SIGNAL "pmix.jctrl.ckptsig" /* int: trigger the checkpoint by signal */
#define PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT "pmix.jctrl.ckptsig" /* int: seconds to wait for the checkpoint */
#define PMIX_JOB_CTRL_DEFINE_PSET "pmix.jctrl.defpset" /* char*: make the targets a process set */
#define PMIX_JOB_CTRL_ID "pmix.jctrl.id" /* char*: caller's name for the request */
#define PMIX_JOB_CTRL_KILL "pmix.jctrl.kill" /* bool: kill at once */
#define PMIX_JOB_CTRL_PAUSE "pmix.jctrl.pause" /* bool: suspend */
#define PMIX_JOB_CTRL_PREEMPTIBLE "pmix.jctrl.preempt" /* bool: job may be preempted */
#define PMIX_JOB_CTRL_PROVISION "pmix.jctrl.pvn" /* char*: nodes to provision */
#define PMIX_JOB_CTRL_PROVISION_IMAGE "pmix.jctrl.pvnimg" /* char*: image to install on them */
#define PMIX_JOB_CTRL_RESTART "pmix.jctrl.restart" /* char*: restart from the given checkpoint */
#define PMIX_JOB_CTRL_RESUME "pmix.jctrl.resume" /* bool: continue */
#define PMIX_JOB_CTRL_SEP "pmix.jctrl.sep" /* bool: detach the job from its parent */
#define PMIX_JOB_CTRL_SIGNAL "pmix.jctrl.sig" /* int: deliver a signal */
#define PMIX_JOB_CTRL_TERMINATE "pmix.jctrl.term" /* bool: end gracefully */
#define PMIX_REGISTER_CLEANUP "pmix.reg.cleanup" /* char*: files to delete at process end */
#define PMIX_REGISTER_CLEANUP_DIR "pmix.reg.cleanupdir" /* char*: directories to delete at process end */

/* log */
#define PMIX_LOG_AGG "pmix.log.agg" /* bool: merge duplicates by topic and item */
#define PMIX_LOG_COMPLETION "pmix.logcomp" /* bool: log the job end with its status */
#define PMIX_LOG_EMAIL "pmix.log.email" /* pmix_data_array_t*: send as mail using the nested directives */
#define PMIX_LOG_EMAIL_ADDR "pmix.log.emaddr" /* char*: mail recipients */
#define PMIX_LOG_EMAIL_MSG "pmix.log.emmsg" /* char*: mail body */
#define PMIX_LOG_EMAIL_SENDER_ADDR "pmix.log.emfaddr" /* char*: mail sender */
#define PMIX_LOG_EMAIL_SERVER "pmix.log.esrvr" /* char*: mail server */
#define PMIX_LOG_EMAIL_SRVR_PORT "pmix.log.esrvrprt" /* int32_t: mail server port */
#define PMIX_LOG_EMAIL_SUBJECT "pmix.log.emsub" /* char*: mail subject */
#define PMIX_LOG_GENERATE_TIMESTAMP "pmix.log.gtstmp" /* bool: library adds the time */
#define PMIX_LOG_GLOBAL_DATASTORE "pmix.log.gstore" /* bool: store in the global database */
#define PMIX_LOG_GLOBAL_SYSLOG "pmix.log.gsys" /* char*: text for the central syslog */
#define PMIX_LOG_JOB_EVENTS "pmix.log.jev" /* bool: log job start, launch and end */
#define PMIX_LOG_JOB_RECORD "pmix.log.jrec" /* bool: store in the job's record */
#define PMIX_LOG_KEY "pmix.log.key" /* char*: topic of the message, used for merging */
#define PMIX_LOG_LOCAL_SYSLOG "pmix.log.lsys" /* char*: text for the node's syslog */
#define PMIX_LOG_MSG "pmix.log.msg" /* pmix_byte_object_t: opaque message */
#define PMIX_LOG_ONCE "pmix.log.once" /* bool: stop at the first channel that works */
#define PMIX_LOG_PROC_ABNORMAL_TERMINATION "pmix.logabproc" /* bool: log each bad process end */
#define PMIX_LOG_PROC_TERMINATION "pmix.logproc" /* bool: log each process end */
#define PMIX_LOG_SOURCE "pmix.log.source" /* pmix_proc_t*: process that asked for the log entry */
#define PMIX_LOG_STDERR "pmix.log.stderr" /* char*: text to write to stderr */
#define PMIX_LOG_STDOUT "pmix.log.stdout" /* char*: text to write to stdout */
#define PMIX_LOG_SYSLOG "pmix.log.syslog" /* char*: text for syslog, global if there is one */
#define PMIX_LOG_SYSLOG_PRI "pmix.log.syspri" /* int: syslog priority */
#define PMIX_LOG_TAG_OUTPUT "pmix.log.tag" /* bool: prefix with the channel */
#define PMIX_LOG_TIMESTAMP "pmix.log.tstmp" /* time_t: time of the entry */
#define PMIX_LOG_TIMESTAMP_OUTPUT "pmix.log.tsout" /* bool: prefix with the time */
#define PMIX_LOG_VAL "pmix.log.val" /* char*: item within the topic, used for merging */
#define PMIX_LOG_XML_OUTPUT "pmix.log.xml" /* bool: write as XML */

/* model */
#define PMIX_MODEL_AFFINITY_POLICY "pmix.mdl.tap" /* char*: thread placement policy of the model */
#define PMIX_MODEL_CPU_TYPE "pmix.mdl.cputype" /* char*: unit in which those CPUs are counted */
#define PMIX_MODEL_LIBRARY_NAME "pmix.mdl.name" /* char*: implementation name of that model */
#define PMIX_MODEL_LIBRARY_VERSION "pmix.mld.vrs" /* char*: version text of that implementation */
#define PMIX_MODEL_NUM_CPUS "pmix.mdl.ncpu" /* uint64_t: CPUs the model currently uses */
#define PMIX_MODEL_NUM_THREADS "pmix.mdl.nthrds" /* uint64_t: threads the model currently runs */
#define PMIX_MODEL_PHASE_NAME "pmix.mdl.phase" /* char*: user label of the current execution phase */
#define PMIX_MODEL_PHASE_TYPE "pmix.mdl.ptype" /* char*: kind of work done in the phase */

/* monitor */
#define PMIX_DISK_ID "pmix.disk.id" /* char*: disk name */
#define PMIX_DISK_IO_IN_PROGRESS "pmix.disk.ios" /* uint64_t: operations in flight */
#define PMIX_DISK_IO_MILLISEC "pmix.disk.ioms" /* uint64_t: ms with I/O active */
#define PMIX_DISK_IO_WEIGHTED "pmix.disk.iowght" /* uint64_t: backlog-weighted ms */
#define PMIX_DISK_READ_COMPLETED "pmix.disk.rdscomp" /* uint64_t: reads finished */
#define PMIX_DISK_READ_MERGED "pmix.disk.rdsmrgd" /* uint64_t: reads merged */
#define PMIX_DISK_READ_MILLISEC "pmix.disk.rdms" /* uint64_t: ms spent reading */
#define PMIX_DISK_READ_SECTORS "pmix.disk.rdsct" /* uint64_t: sectors read */
#define PMIX_DISK_RESOURCE_USAGE "pmix.disk.res" /* pmix_data_array_t*: figures of one disk */
#define PMIX_DISK_SAMPLE_TIME "pmix.disk.samptime" /* time_t: time of the sample */
#define PMIX_DISK_WRITE_COMPLETED "pmix.disk.wtscomp" /* uint64_t: writes finished */
#define PMIX_DISK_WRITE_MERGED "pmix.disk.wtsmrgd" /* uint64_t: writes merged */
#define PMIX_DISK_WRITE_MILLISEC "pmix.disk.wtms" /* uint64_t: ms spent writing */
#define PMIX_DISK_WRITE_SECTORS "pmix.disk.wtsct" /* uint64_t: sectors written */
#define PMIX_MONITOR_APP_CONTROL "pmix.monitor.appctrl" /* bool: application decides the reaction */
#define PMIX_MONITOR_CANCEL "pmix.monitor.cancel" /* char*: stop the named monitoring */
#define PMIX_MONITOR_DISK_RESOURCE_USAGE "pmix.monitor.dkresuse" /* pmix_data_array_t*: disk figures to sample */
#define PMIX_MONITOR_FILE "pmix.monitor.fmon" /* char*: file to watch */
#define PMIX_MONITOR_FILE_ACCESS "pmix.monitor.faccess" /* char*: file must be accessed */
#define PMIX_MONITOR_FILE_CHECK_TIME "pmix.monitor.ftime" /* uint32_t: seconds between looks */
#define PMIX_MONITOR_FILE_DROPS "pmix.monitor.fdrop" /* uint32_t: misses tolerated */
#define PMIX_MONITOR_FILE_MODIFY "pmix.monitor.fmod" /* char*: file must be modified */
#define PMIX_MONITOR_FILE_SIZE "pmix.monitor.fsize" /* bool: file must grow */
#define PMIX_MONITOR_HEARTBEAT "pmix.monitor.mbeat" /* bool: watch for heartbeats */
#define PMIX_MONITOR_HEARTBEAT_DROPS "pmix.monitor.bdrop" /* uint32_t: misses tolerated */
#define PMIX_MONITOR_HEARTBEAT_TIME "pmix.monitor.btime" /* uint32_t: seconds until a heartbeat counts as missed */
#define PMIX_MONITOR_ID "pmix.monitor.id" /* char*: caller's name for the request */
#define PMIX_MONITOR_LOCAL_ONLY "pmix.monitor.local" /* bool: sample only this host */
#define PMIX_MONITOR_NET_RESOURCE_USAGE "pmix.monitor.netresuse" /* pmix_data_array_t*: interface figures to sample */
#define PMIX_MONITOR_NODE_RESOURCE_USAGE "pmix.monitor.ndresuse" /* pmix_data_array_t*: node figures to sample */
#define PMIX_MONITOR_PROC_RESOURCE_USAGE "pmix.monitor.presuse" /* pmix_data_array_t*: process figures to sample */
#define PMIX_MONITOR_PROXY "pmix.monitor.proxy" /* pmix_proc_t*: process that wants the information */
#define PMIX_MONITOR_RESOURCE_RATE "pmix.monitor.resrate" /* uint32_t: sampling period in seconds */
#define PMIX_MONITOR_TARGET_DISKS "pmix.monitor.tgtdks" /* pmix_data_array_t*: disks to sample */
#define PMIX_MONITOR_TARGET_NETS "pmix.monitor.tgtnets" /* pmix_data_array_t*: interfaces to sample */
#define PMIX_MONITOR_TARGET_NODEIDS "pmix.monitor.tgtndids" /* pmix_data_array_t*: nodes to sample by number */
#define PMIX_MONITOR_TARGET_NODES "pmix.monitor.tgtnode" /* pmix_data_array_t*: nodes to sample by name */
#define PMIX_MONITOR_TARGET_PIDS "pmix.monitor.tgtpid" /* pmix_data_array_t*: node/pid pairs to sample */
#define PMIX_MONITOR_TARGET_PROCS "pmix.monitor.tgtproc" /* pmix_data_array_t*: processes to sample */
#define PMIX_NETWORK_ID "pmix.net.id" /* char*: interface name */
#define PMIX_NETWORK_RESOURCE_USAGE "pmix.net.res" /* pmix_data_array_t*: figures of one interface */
#define PMIX_NET_RECVD_BYTES "pmix.net.rcb" /* uint64_t: bytes in */
#define PMIX_NET_RECVD_ERRS "pmix.net.rcerr" /* uint64_t: receive errors */
#define PMIX_NET_RECVD_PCKTS "pmix.net.rcp" /* uint64_t: packets in */
#define PMIX_NET_SAMPLE_TIME "pmix.net.samptime" /* time_t: time of the sample */
#define PMIX_NET_SENT_BYTES "pmix.net.sntb" /* uint64_t: bytes out */
#define PMIX_NET_SENT_ERRS "pmix.net.snterr" /* uint64_t: send errors */
#define PMIX_NET_SENT_PCKTS "pmix.net.sntp" /* uint64_t: packets out */
#define PMIX_NODE_LOAD_AVG "pmix.node.la" /* float: load, 1 min */
#define PMIX_NODE_LOAD_AVG15 "pmix.node.la15" /* float: load, 15 min */
#define PMIX_NODE_LOAD_AVG5 "pmix.node.la5" /* float: load, 5 min */
#define PMIX_NODE_MEM_BUFFERS "pmix.node.mbuf" /* float: buffer memory, MB */
#define PMIX_NODE_MEM_CACHED "pmix.node.mcache" /* float: page cache, MB */
#define PMIX_NODE_MEM_FREE "pmix.node.mfree" /* float: free RAM, MB */
#define PMIX_NODE_MEM_MAPPED "pmix.node.mmap" /* float: mapped files, MB */
#define PMIX_NODE_MEM_SWAP_CACHED "pmix.node.mswpc" /* float: swap cache, MB */
#define PMIX_NODE_MEM_SWAP_FREE "pmix.node.mswpfree" /* float: figure labelled free swap, MB */
#define PMIX_NODE_MEM_TOTAL "pmix.node.mtot" /* float: usable RAM, MB */
#define PMIX_NODE_RESOURCE_USAGE "pmix.node.res" /* pmix_data_array_t*: figures of one node */
#define PMIX_NODE_SAMPLE_TIME "pmix.node.samptime" /* time_t: time of the sample */
#define PMIX_NODE_SWAP_TOTAL "pmix.node.mswpt" /* float: swap space, MB */
#define PMIX_PROC_CPU "pmix.proc.cpu" /* uint16_t: CPU last run on */
#define PMIX_PROC_NUM_THREADS "pmix.proc.nthr" /* uint16_t: threads */
#define PMIX_PROC_OS_STATE "pmix.proc.osstate" /* char*: OS state letter */
#define PMIX_PROC_PEAK_VSIZE "pmix.proc.pkvsize" /* float: peak virtual size, MB */
#define PMIX_PROC_PERCENT_CPU "pmix.proc.pcpu" /* float: CPU share */
#define PMIX_PROC_PRIORITY "pmix.proc.pri" /* int32_t: scheduling priority */
#define PMIX_PROC_PSS "pmix.proc.pss" /* float: proportional set size, MB */
#define PMIX_PROC_RESOURCE_USAGE "pmix.proc.res" /* pmix_data_array_t*: figures of one process */
#define PMIX_PROC_RSS "pmix.proc.rss" /* float: resident size, MB */
#define PMIX_PROC_SAMPLE_TIME "pmix.proc.samptime" /* time_t: time of the sample */
#define PMIX_PROC_TIME "pmix.proc.time" /* struct timeval: CPU time used */
#define PMIX_PROC_VSIZE "pmix.proc.vsize" /* float: virtual size, MB */
#define PMIX_SEND_HEARTBEAT "pmix.monitor.beat" /* bool: emit one heartbeat */

/* node */
#define PMIX_ARCH "pmix.arch" /* uint32_t: deprecated; architecture flags */
#define PMIX_AVAIL_PHYS_MEMORY "pmix.pmem" /* uint64_t: physical memory of the node */
#define PMIX_CLIENT_AVG_MEMORY "pmix.cl.mem.avg" /* float: mean client memory, MB */
#define PMIX_DAEMON_MEMORY "pmix.dmn.mem" /* float: memory used by the daemon, MB */
#define PMIX_FABRIC_COORDINATES "pmix.fab.coord" /* pmix_data_array_t*: coordinates of the node's devices */
#define PMIX_FABRIC_DEVICE "pmix.fabdev" /* pmix_data_array_t*: description of one device */
#define PMIX_FABRIC_DEVICES "pmix.fab.devs" /* pmix_data_array_t*: devices of the node */
#define PMIX_HOSTNAME "pmix.hname" /* char*: node name of the process, or node selector */
#define PMIX_HOSTNAME_ALIASES "pmix.alias" /* char*: other names of the node */
#define PMIX_HWLOC_HOLE_KIND "pmix.hwlocholek" /* char*: deprecated; address-space hole to use for sharing */
#define PMIX_HWLOC_SHARE_TOPO "pmix.hwlocsh" /* bool: deprecated; share the topology by memory */
#define PMIX_HWLOC_SHMEM_ADDR "pmix.hwlocaddr" /* size_t: deprecated; map address of the shared topology */
#define PMIX_HWLOC_SHMEM_FILE "pmix.hwlocfile" /* char*: deprecated; file of the shared topology */
#define PMIX_HWLOC_SHMEM_SIZE "pmix.hwlocsize" /* size_t: deprecated; size of the shared topology */
#define PMIX_HWLOC_XML_V1 "pmix.hwlocxml1" /* char*: deprecated; topology in hwloc 1 XML */
#define PMIX_HWLOC_XML_V2 "pmix.hwlocxml2" /* char*: deprecated; topology in hwloc 2 XML */
#define PMIX_LOCALLDR "pmix.lldr" /* pmix_rank_t: lowest rank of the job on the node */
#define PMIX_LOCAL_CPUSETS "pmix.lcpus" /* char*: bindings of local peers, colon separated */
#define PMIX_LOCAL_PEERS "pmix.lpeers" /* char*: comma list of the job's ranks on the node */
#define PMIX_LOCAL_PROCS "pmix.lprocs" /* pmix_data_array_t*: process IDs present on the node */
#define PMIX_LOCAL_SIZE "pmix.local.size" /* uint32_t: procs of the job on the node */
#define PMIX_LOCAL_TOPO "pmix.ltopo" /* char*: deprecated; node topology as XML */
#define PMIX_NODEID "pmix.nodeid" /* uint32_t: numeric node index, or node selector */
#define PMIX_NODE_SIZE "pmix.node.size" /* uint32_t: procs of all jobs on the node */
#define PMIX_TOPOLOGY "pmix.topo" /* hwloc_topology_t: deprecated; library's hwloc object */
#define PMIX_TOPOLOGY2 "pmix.topo2" /* pmix_topology_t*: pointer to a topology object */
#define PMIX_TOPOLOGY_FILE "pmix.topo.file" /* char*: deprecated; file with topology XML */
#define PMIX_TOPOLOGY_INDEX "pmix.topo.index" /* int: index into a table of topologies */
#define PMIX_TOPOLOGY_XML "pmix.topo.xml" /* char*: deprecated; topology as XML */

/* proc */
#define PMIX_APPNUM "pmix.appnum" /* uint32_t: index of the application within the job */
#define PMIX_APP_RANK "pmix.apprank" /* pmix_rank_t: rank within the application */
#define PMIX_CPUSET "pmix.cpuset" /* char*: text form of the CPU binding applied at launch */
#define PMIX_CPUSET_BITMAP "pmix.bitmap" /* pmix_cpuset_t*: bitmap form of the CPU binding applied at launch */
#define PMIX_CREDENTIAL "pmix.cred" /* char*: credential given to the process */
#define PMIX_DEVICE_DISTANCES "pmix.dev.dist" /* pmix_data_array_t*: distances from the process to devices */
#define PMIX_EXIT_CODE "pmix.exit.code" /* int: exit code of a terminated process */
#define PMIX_FABRIC_ENDPT "pmix.fab.endpt" /* pmix_data_array_t*: endpoints of a process */
#define PMIX_GLOBAL_RANK "pmix.grank" /* pmix_rank_t: rank across all jobs of the session */
#define PMIX_GROUP_ENDPT_DATA "pmix.grp.endpt" /* pmix_data_array_t*: endpoint data of a member */
#define PMIX_GROUP_LOCAL_CID "pmix.grp.lclid" /* size_t: member's own context number */
#define PMIX_GROUP_NAMES "pmix.pgrp.nm" /* pmix_data_array_t*: groups the process is in */
#define PMIX_GRPID "pmix.egid" /* uint32_t: effective gid of the peer or job */
#define PMIX_LOCALITY "pmix.loc" /* uint16_t: deprecated; bit mask of the hardware that two procs share */
#define PMIX_LOCALITY_STRING "pmix.locstr" /* char*: text encoding of a process's binding */
#define PMIX_LOCAL_RANK "pmix.lrank" /* uint16_t: index among this job's procs on the node */
#define PMIX_NODE_RANK "pmix.nrank" /* uint16_t: index among all jobs' procs on the node */
#define PMIX_PACKAGE_RANK "pmix.pkgrank" /* uint16_t: index among this job's procs on the CPU package */
#define PMIX_PROCDIR "pmix.pdir" /* char*: scratch directory of the process */
#define PMIX_PROCID "pmix.procid" /* pmix_proc_t*: full process identifier */
#define PMIX_PROC_BLOB "pmix.pblob" /* pmix_byte_object_t: deprecated; packed process data */
#define PMIX_PROC_PID "pmix.ppid" /* pid_t: operating-system pid */
#define PMIX_PROC_STATE_STATUS "pmix.proc.state" /* pmix_proc_state_t: state of the process */
#define PMIX_PROC_TERM_STATUS "pmix.proc.term.status" /* pmix_status_t: final status of the process */
#define PMIX_PROC_URI "pmix.puri" /* char*: deprecated; contact data of a process */
#define PMIX_PSET_NAMES "pmix.pset.nms" /* pmix_data_array_t*: names of all process sets that contain the process */
#define PMIX_RANK "pmix.rank" /* pmix_rank_t: rank within the job */
#define PMIX_REALGID "pmix.rgid" /* uint32_t: real gid of the peer */
#define PMIX_REALUID "pmix.ruid" /* uint32_t: real uid of the peer */
#define PMIX_REINCARNATION "pmix.reinc" /* uint32_t: how many times the process was restarted */
#define PMIX_SWITCH_PEERS "pmix.speers" /* pmix_data_array_t*: ranks on the same switch */
#define PMIX_USERID "pmix.euid" /* uint32_t: effective uid of the peer or job */

/* query */
#define PMIX_QUERY_ALLOCATION "pmix.query.allc" /* pmix_data_array_t*: nodes known to the server */
#define PMIX_QUERY_ALLOC_IDS "pmix.query.alloc.ids" /* pmix_data_array_t*: known allocation identifiers */
#define PMIX_QUERY_ALLOC_PROPERTIES "pmix.query.alloc.prop" /* pmix_data_array_t*: properties of one allocation */
#define PMIX_QUERY_ALLOC_STATUS "pmix.query.alloc" /* char*: state of an allocation request */
#define PMIX_QUERY_ATTRIBUTE_SUPPORT "pmix.qry.attrs" /* pmix_data_array_t*: attributes each function supports */
#define PMIX_QUERY_AUTHORIZATIONS "pmix.qry.auths" /* pmix_data_array_t*: operations that the tool may request */
#define PMIX_QUERY_AVAILABLE_SLOTS "pmix.qry.aslots" /* uint32_t: free slots right now */
#define PMIX_QUERY_AVAIL_SERVERS "pmix.qry.asrvrs" /* pmix_data_array_t*: servers on the node that could be contacted */
#define PMIX_QUERY_DEBUG_SUPPORT "pmix.qry.debug" /* char*: debug attributes understood */
#define PMIX_QUERY_DEVICES "pmix.qry.dev" /* pmix_data_array_t*: devices in the topology that match */
#define PMIX_QUERY_GROUP_MEMBERSHIP "pmix.qry.pgrpmems" /* pmix_data_array_t*: members of a group */
#define PMIX_QUERY_GROUP_NAMES "pmix.qry.pgrp" /* pmix_data_array_t*: names of the groups */
#define PMIX_QUERY_JOB_STATUS "pmix.qry.jst" /* pmix_status_t: status of the job named by the qualifier */
#define PMIX_QUERY_LOCAL_ONLY "pmix.qry.local" /* bool: answer from local knowledge only */
#define PMIX_QUERY_LOCAL_PROC_TABLE "pmix.qry.lptable" /* pmix_data_array_t*: proc_info of a job's processes on this node */
#define PMIX_QUERY_MEMORY_USAGE "pmix.qry.mem" /* pmix_data_array_t*: memory use of the qualified procs */
#define PMIX_QUERY_MIN_ALLOC_UNIT "pmix.qry.minau" /* pmix_data_array_t*: smallest unit that can be allocated */
#define PMIX_QUERY_NAMESPACES "pmix.qry.ns" /* char*: active namespaces */
#define PMIX_QUERY_NAMESPACE_INFO "pmix.qry.nsinfo" /* pmix_data_array_t*: active namespaces with their command lines */
#define PMIX_QUERY_NODE_RESOURCE_USAGE "pmix.qry.nres" /* char*: usage figures of a node */
#define PMIX_QUERY_NUM_GROUPS "pmix.qry.pgrpnum" /* size_t: number of groups */
#define PMIX_QUERY_NUM_PSETS "pmix.qry.psetnum" /* size_t: number of process sets */
#define PMIX_QUERY_PROC_RESOURCE_USAGE "pmix.qry.pres" /* pmix_proc_t*: usage figures of a process */
#define PMIX_QUERY_PROC_TABLE "pmix.qry.ptable" /* pmix_data_array_t*: proc_info of every process of a job */
#define PMIX_QUERY_PROVISIONAL_ABI_VERSION "pmix.qry.prabiver" /* char*: provisional ABI levels supported */
#define PMIX_QUERY_PSET_MEMBERSHIP "pmix.qry.pmems" /* pmix_data_array_t*: members of a process set */
#define PMIX_QUERY_PSET_NAMES "pmix.qry.psets" /* char*: names of the process sets */
#define PMIX_QUERY_QUALIFIERS "pmix.qry.quals" /* pmix_data_array_t*: echo of the qualifiers used */
#define PMIX_QUERY_QUEUE_LIST "pmix.qry.qlst" /* char*: scheduler queues */
#define PMIX_QUERY_QUEUE_STATUS "pmix.qry.qst" /* pmix_data_array_t*: status of scheduler queues */
#define PMIX_QUERY_REFRESH_CACHE "pmix.qry.rfsh" /* bool: ignore cached answers */
#define PMIX_QUERY_REPORT_AVG "pmix.qry.avg" /* bool: give averages */
#define PMIX_QUERY_REPORT_MINMAX "pmix.qry.minmax" /* bool: give extremes */
#define PMIX_QUERY_RESOLVE_NODE "pmix.qry.node" /* char*: nodes used by a namespace */
#define PMIX_QUERY_RESOLVE_PEERS "pmix.qry.peers" /* pmix_data_array_t*: procs of a namespace on a node */
#define PMIX_QUERY_RESULTS "pmix.qry.res" /* pmix_data_array_t*: results of one query of several */
#define PMIX_QUERY_RES_BLOCKS "pmix.qry.resblks" /* pmix_data_array_t*: names of resource blocks */
#define PMIX_QUERY_RES_BLOCK_DEF "pmix.qry.resdef" /* pmix_data_array_t*: contents of a resource block */
#define PMIX_QUERY_SPAWN_SUPPORT "pmix.qry.spawn" /* char*: spawn attributes understood */
#define PMIX_QUERY_STABLE_ABI_VERSION "pmix.qry.stabiver" /* char*: stable ABI levels supported */
#define PMIX_QUERY_STORAGE_LIST "pmix.strg.list" /* char*: storage systems known */
#define PMIX_QUERY_SUPPORTED_KEYS "pmix.qry.keys" /* char*: which keys a query understands */
#define PMIX_QUERY_SUPPORTED_QUALIFIERS "pmix.qry.quals" /* bool: list qualifiers instead of running the query */

/* server */
#define PMIX_SERVER_ALLOW_FOREIGN_TOOLS "pmix.srvr.ftools" /* bool: server also accepts tools of other users; rendezvous files become world readable */
#define PMIX_SERVER_ATTRIBUTES "pmix.srvr.attrs" /* char*: functions whose server attributes are wanted */
#define PMIX_SERVER_ENABLE_MONITORING "pmix.srv.monitor" /* bool: switch on the sensor subsystem in the server */
#define PMIX_SERVER_FUNCTIONS "pmix.srvr.fns" /* char*: server functions supported */
#define PMIX_SERVER_GATEWAY "pmix.srv.gway" /* bool: server can service requests that compute nodes cannot (mail, global syslog) */
#define PMIX_SERVER_HOSTNAME "pmix.srvr.host" /* char*: host on which the wanted server runs */
#define PMIX_SERVER_NSPACE "pmix.srv.nspace" /* char*: namespace the server uses for itself */
#define PMIX_SERVER_PIDINFO "pmix.srvr.pidinfo" /* pid_t: pid of the server a tool wants to reach */
#define PMIX_SERVER_RANK "pmix.srv.rank" /* pmix_rank_t: rank the server uses for itself */
#define PMIX_SERVER_REMOTE_CONNECTIONS "pmix.srvr.remote" /* bool: listen on real interfaces, not only loopback */
#define PMIX_SERVER_SCHEDULER "pmix.srv.sched" /* bool: the host of this server is the scheduler */
#define PMIX_SERVER_SESSION_SUPPORT "pmix.srvr.sess" /* bool: server advertises itself as the server of its session */
#define PMIX_SERVER_SHARE_TOPOLOGY "pmix.srvr.share" /* bool: server exports its node topology to its clients (shared memory) */
#define PMIX_SERVER_START_TIME "pmix.srv.strtime" /* char*: ctime text of the moment the server created its rendezvous file */
#define PMIX_SERVER_SYSTEM_SUPPORT "pmix.srvr.sys" /* bool: server advertises itself as the node-wide system server */
#define PMIX_SERVER_SYS_CONTROLLER "pmix.srv.ctrlr" /* bool: the host of this server is the cluster's system controller */
#define PMIX_SERVER_TMPDIR "pmix.srvr.tmpdir" /* char*: directory for client-facing rendezvous and contact files */
#define PMIX_SERVER_TOOL_SUPPORT "pmix.srvr.tool" /* bool: server accepts tools of its own user; writes a rendezvous file only that user can read */
#define PMIX_SERVER_URI "pmix.srvr.uri" /* char*: contact URI of the server to use */
#define PMIX_SETUP_APP_ALL "pmix.setup.all" /* bool: collect everything */
#define PMIX_SETUP_APP_ENVARS "pmix.setup.env" /* bool: collect relevant variables */
#define PMIX_SETUP_APP_NONENVARS "pmix.setup.nenv" /* bool: collect everything but variables */

/* session */
#define PMIX_ALLOCATED_NODELIST "pmix.alist" /* char*: all nodes of the allocation, used or not */
#define PMIX_CLUSTER_ID "pmix.clid" /* char*: name of the cluster */
#define PMIX_HOMOGENEOUS_SYSTEM "pmix.homo" /* bool: all nodes of the session have identical hardware */
#define PMIX_MAX_PROCS "pmix.max.size" /* uint32_t: upper bound on procs of the realm */
#define PMIX_NUM_ALLOCATED_NODES "pmix.num.anodes" /* uint32_t: nodes in the realm whether used or not */
#define PMIX_NUM_SLOTS "pmix.num.slots" /* uint32_t: slots assigned */
#define PMIX_RM_NAME "pmix.rm.name" /* char*: name of the resource manager */
#define PMIX_RM_VERSION "pmix.rm.version" /* char*: version of the resource manager */
#define PMIX_SESSION_ID "pmix.session.id" /* uint32_t: numeric session identifier */
#define PMIX_TDIR_RMCLEAN "pmix.tdir.rmclean" /* bool: the resource manager removes the scratch directories */
#define PMIX_TIME_REMAINING "pmix.time.remaining" /* uint32_t: seconds left in the allocation */
#define PMIX_TMPDIR "pmix.tmpdir" /* char*: top scratch directory of the session */
#define PMIX_UNIV_SIZE "pmix.univ.size" /* uint32_t: slots in the session */

/* sessionctrl */
#define PMIX_SESSION_APP "pmix.ssn.app" /* pmix_data_array_t*: applications to run in the session */
#define PMIX_SESSION_COMPLETE "pmix.ssn.complete" /* bool: the session is over and reclaimed */
#define PMIX_SESSION_CTRL_ID "pmix.ssnctrl.id" /* char*: caller's name for the request */
#define PMIX_SESSION_EXTEND "pmix.ssn.xtend" /* bool: enlarge the session in time or resources */
#define PMIX_SESSION_INFO "pmix.ssn.info" /* bool: the key belongs to the session realm */
#define PMIX_SESSION_INSTANTIATE "pmix.ssn.inst" /* bool: start the session */
#define PMIX_SESSION_JOB "pmix.ssn.job" /* pmix_data_array_t*: job directives for the session's applications */
#define PMIX_SESSION_PAUSE "pmix.ssn.pause" /* bool: suspend every job */
#define PMIX_SESSION_PREEMPT "pmix.ssn.preempt" /* bool: preempt jobs of the session */
#define PMIX_SESSION_PROVISION "pmix.ssn.pvn" /* pmix_data_array_t*: removed after 5.0; nodes and image to provision */
#define PMIX_SESSION_PROVISION_IMAGE "pmix.ssn.pvnimg" /* char*: image to install on them */
#define PMIX_SESSION_PROVISION_NODES "pmix.ssn.pvnnds" /* char*: nodes to provision */
#define PMIX_SESSION_RESOURCES "pmix.ssn.res" /* pmix_data_array_t*: resources in the session */
#define PMIX_SESSION_RESTORE "pmix.ssn.restore" /* bool: bring preempted jobs back */
#define PMIX_SESSION_RESUME "pmix.ssn.resume" /* bool: continue every job */
#define PMIX_SESSION_SEP "pmix.ssn.sep" /* bool: detach the session from its parent */
#define PMIX_SESSION_SIGNAL "pmix.ssn.sig" /* int: signal every process of the session */
#define PMIX_SESSION_TERMINATE "pmix.ssn.terminate" /* bool: end the session and reclaim everything */

/* storage */
#define PMIX_STORAGE_ACCESSIBILITY "pmix.strg.access" /* pmix_storage_accessibility_t: nodes that can reach the storage system */
#define PMIX_STORAGE_ACCESS_TYPE "pmix.strg.atype" /* pmix_storage_access_type_t: read, write or both */
#define PMIX_STORAGE_BW_CUR "pmix.strg.bwcur" /* double: bandwidth seen lately */
#define PMIX_STORAGE_BW_MAX "pmix.strg.bwmax" /* double: best bandwidth */
#define PMIX_STORAGE_CAPACITY_LIMIT "pmix.strg.cap" /* uint64_t: total capacity, MiB */
#define PMIX_STORAGE_CAPACITY_USED "pmix.strg.capuse" /* double: bytes used */
#define PMIX_STORAGE_ID "pmix.strg.id" /* char*: storage system meant */
#define PMIX_STORAGE_IOPS_CUR "pmix.strg.iopscur" /* double: operations per second seen lately */
#define PMIX_STORAGE_IOPS_MAX "pmix.strg.iopsmax" /* double: best operations per second */
#define PMIX_STORAGE_MEDIUM "pmix.strg.medium" /* pmix_storage_medium_t: physical media */
#define PMIX_STORAGE_MINIMAL_XFER_SIZE "pmix.strg.minxfer" /* double: smallest transfer */
#define PMIX_STORAGE_OBJECTS_USED "pmix.strg.objuse" /* uint64_t: objects in use */
#define PMIX_STORAGE_OBJECT_LIMIT "pmix.strg.obj" /* uint64_t: maximum objects */
#define PMIX_STORAGE_PATH "pmix.strg.path" /* char*: mount point */
#define PMIX_STORAGE_PERSISTENCE "pmix.strg.persist" /* pmix_storage_persistence_t: how long data stays */
#define PMIX_STORAGE_SUGGESTED_XFER_SIZE "pmix.strg.sxfer" /* double: best transfer size */
#define PMIX_STORAGE_TYPE "pmix.strg.type" /* char*: kind of storage */
#define PMIX_STORAGE_VERSION "pmix.strg.ver" /* char*: version text */

/* tool */
#define PMIX_CONNECTION_ORDER "pmix.cnct.ord" /* char*: ordered list of connection attributes to try in turn */
#define PMIX_CONNECT_MAX_RETRIES "pmix.tool.mretries" /* uint32_t: how often to retry connecting */
#define PMIX_CONNECT_RETRY_DELAY "pmix.tool.retry" /* uint32_t: seconds between connection attempts */
#define PMIX_CONNECT_SYSTEM_FIRST "pmix.cnct.sys.first" /* bool: try the system-level server before others */
#define PMIX_CONNECT_TO_SCHEDULER "pmix.cnct.sched" /* bool: connect to the scheduler's server */
#define PMIX_CONNECT_TO_SYSTEM "pmix.cnct.sys" /* bool: only the system-level server is acceptable */
#define PMIX_CONNECT_TO_SYS_CONTROLLER "pmix.cnct.ctrlr" /* bool: connect to the system controller's server */
#define PMIX_TOOL_ATTACHMENT_FILE "pmix.tool.attach" /* char*: file that holds the contact data of the server to attach to */
#define PMIX_TOOL_ATTRIBUTES "pmix.tool.attrs" /* char*: functions whose tool attributes are wanted */
#define PMIX_TOOL_CONNECT_OPTIONAL "pmix.tool.conopt" /* bool: failure to find a server is not an error */
#define PMIX_TOOL_DO_NOT_CONNECT "pmix.tool.nocon" /* bool: initialise as a tool without contacting any server */
#define PMIX_TOOL_FUNCTIONS "pmix.tool.fns" /* char*: tool functions supported */
#define PMIX_TOOL_NSPACE "pmix.tool.nspace" /* char*: namespace the tool wants to use */
#define PMIX_TOOL_RANK "pmix.tool.rank" /* uint32_t: rank the tool wants to use */

/* transport */
#define PMIX_TCP_DISABLE_IPV4 "pmix.tcp.disipv4" /* bool: do not use IPv4 */
#define PMIX_TCP_DISABLE_IPV6 "pmix.tcp.disipv6" /* bool: do not use IPv6 */
#define PMIX_TCP_IF_EXCLUDE "pmix.tcp.ifexclude" /* char*: interfaces or subnets that must not be used */
#define PMIX_TCP_IF_INCLUDE "pmix.tcp.ifinclude" /* char*: interfaces or subnets that may be used */
#define PMIX_TCP_IPV4_PORT "pmix.tcp.ipv4" /* int: fixed IPv4 port */
#define PMIX_TCP_IPV6_PORT "pmix.tcp.ipv6" /* int: fixed IPv6 port */
#define PMIX_TCP_REPORT_URI "pmix.tcp.repuri" /* char*: where to print the listener URI (stdout, stderr or a file) */
#define PMIX_TCP_URI "pmix.tcp.uri" /* char*: server URI to use, or file that contains it */

#endif
