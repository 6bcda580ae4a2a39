/* One value of every data type of values, for tests of each helper. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include "check.h"

struct sample {
    const char *name;
    pmix_value_t value;
};

static pmix_proc_t sample_proc;
static pmix_proc_info_t sample_proc_info;
static pmix_data_array_t sample_integers, sample_texts, sample_infos, sample_nested;
static int sample_numbers[] = {7, -8, 9};
static char *sample_strings[] = {"one", "", "three"};
static pmix_info_t sample_info[2];
static pmix_coord_t sample_coord;
static uint32_t sample_coordinates[] = {3, 1, 4};
static char sample_bytes[] = {0, 1, (char)0xff, 0, 'x'};

static UNUSED void sample_array(pmix_data_array_t *array, pmix_data_type_t type, size_t size, void *elements)
{
    array->type = type;
    array->size = size;
    array->array = elements;
}

/* Fills `samples` and returns their number. They borrow their data: they are never destructed. */
static UNUSED size_t samples_fill(struct sample *samples)
{
    size_t count = 0;
    memset(samples, 0, sizeof(struct sample) * 64);
    sample_proc = proc_of("a-job", 12);
    memset(&sample_proc_info, 0, sizeof sample_proc_info);
    sample_proc_info.proc = sample_proc;
    sample_proc_info.hostname = "node1";
    sample_proc_info.executable_name = "/bin/true";
    sample_proc_info.pid = 4711;
    sample_proc_info.exit_code = -3;
    /* Stock's copies of a process info lose the state. */
    sample_proc_info.state = stock() ? PMIX_PROC_STATE_UNDEF : PMIX_PROC_STATE_RUNNING;
    memset(&sample_coord, 0, sizeof sample_coord);
    sample_coord.view = PMIX_COORD_LOGICAL_VIEW;
    sample_coord.coord = sample_coordinates;
    sample_coord.dims = 3;
    memset(sample_info, 0, sizeof sample_info);
    strcpy(sample_info[0].key, "first");
    sample_info[0].flags = PMIX_INFO_REQD;
    sample_info[0].value.type = PMIX_UINT32;
    sample_info[0].value.data.uint32 = 123456;
    strcpy(sample_info[1].key, "second");
    sample_info[1].value.type = PMIX_STRING;
    sample_info[1].value.data.string = "text";
    sample_array(&sample_integers, PMIX_INT, 3, sample_numbers);
    sample_array(&sample_texts, PMIX_STRING, 3, sample_strings);
    sample_array(&sample_infos, PMIX_INFO, 2, sample_info);

#define SAMPLE(kind, member, content)                    \
    do {                                                 \
        samples[count].name = #kind;                     \
        samples[count].value.type = kind;                \
        samples[count].value.data.member = (content);    \
        count++;                                         \
    } while (0)
    SAMPLE(PMIX_BOOL, flag, true);
    SAMPLE(PMIX_BYTE, byte, 0xab);
    SAMPLE(PMIX_STRING, string, "some text");
    SAMPLE(PMIX_STRING, string, "");
    SAMPLE(PMIX_SIZE, size, 0x123456789abULL);
    SAMPLE(PMIX_PID, pid, 31337);
    SAMPLE(PMIX_INT, integer, -123456);
    SAMPLE(PMIX_INT8, int8, -100);
    SAMPLE(PMIX_INT16, int16, -30000);
    SAMPLE(PMIX_INT32, int32, -2000000000);
    SAMPLE(PMIX_INT64, int64, -9000000000000000000LL);
    SAMPLE(PMIX_UINT, uint, 4000000000U);
    SAMPLE(PMIX_UINT8, uint8, 200);
    SAMPLE(PMIX_UINT16, uint16, 60000);
    SAMPLE(PMIX_UINT32, uint32, 4000000001U);
    SAMPLE(PMIX_UINT64, uint64, 18000000000000000000ULL);
    SAMPLE(PMIX_FLOAT, fval, 1.5F);
    SAMPLE(PMIX_DOUBLE, dval, -2.25);
    SAMPLE(PMIX_TIME, time, 1700000000);
    SAMPLE(PMIX_STATUS, status, PMIX_ERR_NOT_FOUND);
    SAMPLE(PMIX_PROC, proc, &sample_proc);
    SAMPLE(PMIX_PROC_RANK, rank, 17);
    SAMPLE(PMIX_PERSIST, persist, PMIX_PERSIST_APP);
    SAMPLE(PMIX_SCOPE, scope, PMIX_GLOBAL);
    SAMPLE(PMIX_DATA_RANGE, range, PMIX_RANGE_SESSION);
    SAMPLE(PMIX_PROC_STATE, state, PMIX_PROC_STATE_CONNECTED);
    SAMPLE(PMIX_ALLOC_DIRECTIVE, adir, PMIX_ALLOC_EXTEND);
    SAMPLE(PMIX_PROC_INFO, pinfo, &sample_proc_info);
    SAMPLE(PMIX_DATA_ARRAY, darray, &sample_integers);
    SAMPLE(PMIX_DATA_ARRAY, darray, &sample_texts);
    SAMPLE(PMIX_DATA_ARRAY, darray, &sample_infos);
    SAMPLE(PMIX_COORD, coord, &sample_coord);
    SAMPLE(PMIX_LINK_STATE, linkstate, PMIX_LINK_UP);
    SAMPLE(PMIX_JOB_STATE, jstate, PMIX_JOB_STATE_RUNNING);
    SAMPLE(PMIX_LOCTYPE, locality, PMIX_LOCALITY_SHARE_NODE | PMIX_LOCALITY_SHARE_CORE);
    SAMPLE(PMIX_DEVTYPE, devtype, PMIX_DEVTYPE_GPU);
#undef SAMPLE
    samples[count].name = "PMIX_TIMEVAL";
    samples[count].value.type = PMIX_TIMEVAL;
    samples[count].value.data.tv.tv_sec = 12;
    samples[count++].value.data.tv.tv_usec = 345678;
    samples[count].name = "PMIX_BYTE_OBJECT";
    samples[count].value.type = PMIX_BYTE_OBJECT;
    samples[count].value.data.bo.bytes = sample_bytes;
    samples[count++].value.data.bo.size = sizeof sample_bytes;
    samples[count].name = "PMIX_ENVAR";
    samples[count].value.type = PMIX_ENVAR;
    samples[count].value.data.envar.envar = "PATH";
    samples[count].value.data.envar.value = "/bin";
    samples[count++].value.data.envar.separator = ':';
    /* An array in an array. */
    memset(&samples[count], 0, sizeof samples[count]);
    samples[count].name = "PMIX_DATA_ARRAY of values";
    samples[count].value.type = PMIX_DATA_ARRAY;
    samples[count].value.data.darray = &sample_nested;
    sample_array(&sample_nested, PMIX_VALUE, 2, NULL);
    static pmix_value_t inner[2];
    inner[0] = samples[2].value;
    inner[1].type = PMIX_DATA_ARRAY;
    inner[1].data.darray = &sample_integers;
    sample_nested.array = inner;
    return count + 1;
}

static UNUSED bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static UNUSED bool same_value(const pmix_value_t *a, const pmix_value_t *b);

static UNUSED bool same_array(const pmix_data_array_t *a, const pmix_data_array_t *b)
{
    if (!a || !b || a->type != b->type || a->size != b->size) return false;
    for (size_t i = 0; i < a->size; i++) {
        switch (a->type) {
        case PMIX_INT:
            if (((int *)a->array)[i] != ((int *)b->array)[i]) return false;
            break;
        case PMIX_STRING:
            if (!same_text(((char **)a->array)[i], ((char **)b->array)[i])) return false;
            break;
        case PMIX_VALUE:
            if (!same_value(&((pmix_value_t *)a->array)[i], &((pmix_value_t *)b->array)[i])) return false;
            break;
        case PMIX_INFO: {
            pmix_info_t *x = &((pmix_info_t *)a->array)[i], *y = &((pmix_info_t *)b->array)[i];
            if (strcmp(x->key, y->key) != 0 || x->flags != y->flags || !same_value(&x->value, &y->value)) return false;
            break;
        }
        default:
            return false;
        }
    }
    return true;
}

/* Equal in content, at any address. */
static UNUSED bool same_value(const pmix_value_t *a, const pmix_value_t *b)
{
    if (a->type != b->type) return false;
    switch (a->type) {
#define SAME(kind, member) case kind: return a->data.member == b->data.member
    SAME(PMIX_BOOL, flag);
    SAME(PMIX_BYTE, byte);
    SAME(PMIX_SIZE, size);
    SAME(PMIX_PID, pid);
    SAME(PMIX_INT, integer);
    SAME(PMIX_INT8, int8);
    SAME(PMIX_INT16, int16);
    SAME(PMIX_INT32, int32);
    SAME(PMIX_INT64, int64);
    SAME(PMIX_UINT, uint);
    SAME(PMIX_UINT8, uint8);
    SAME(PMIX_UINT16, uint16);
    SAME(PMIX_UINT32, uint32);
    SAME(PMIX_UINT64, uint64);
    SAME(PMIX_FLOAT, fval);
    SAME(PMIX_DOUBLE, dval);
    SAME(PMIX_TIME, time);
    SAME(PMIX_STATUS, status);
    SAME(PMIX_PROC_RANK, rank);
    SAME(PMIX_PERSIST, persist);
    SAME(PMIX_SCOPE, scope);
    SAME(PMIX_DATA_RANGE, range);
    SAME(PMIX_PROC_STATE, state);
    SAME(PMIX_ALLOC_DIRECTIVE, adir);
    SAME(PMIX_LINK_STATE, linkstate);
    SAME(PMIX_JOB_STATE, jstate);
    SAME(PMIX_LOCTYPE, locality);
    SAME(PMIX_DEVTYPE, devtype);
#undef SAME
    case PMIX_STRING:
        return same_text(a->data.string, b->data.string);
    case PMIX_TIMEVAL:
        return a->data.tv.tv_sec == b->data.tv.tv_sec && a->data.tv.tv_usec == b->data.tv.tv_usec;
    case PMIX_PROC:
        return strcmp(a->data.proc->nspace, b->data.proc->nspace) == 0 && a->data.proc->rank == b->data.proc->rank;
    case PMIX_BYTE_OBJECT:
        return a->data.bo.size == b->data.bo.size && memcmp(a->data.bo.bytes, b->data.bo.bytes, a->data.bo.size) == 0;
    case PMIX_PROC_INFO: {
        pmix_proc_info_t *x = a->data.pinfo, *y = b->data.pinfo;
        return strcmp(x->proc.nspace, y->proc.nspace) == 0 && x->proc.rank == y->proc.rank &&
               same_text(x->hostname, y->hostname) && same_text(x->executable_name, y->executable_name) &&
               x->pid == y->pid && x->exit_code == y->exit_code && x->state == y->state;
    }
    case PMIX_COORD:
        return a->data.coord->view == b->data.coord->view && a->data.coord->dims == b->data.coord->dims &&
               memcmp(a->data.coord->coord, b->data.coord->coord, a->data.coord->dims * sizeof(uint32_t)) == 0;
    case PMIX_ENVAR:
        return same_text(a->data.envar.envar, b->data.envar.envar) && same_text(a->data.envar.value, b->data.envar.value) &&
               a->data.envar.separator == b->data.envar.separator;
    case PMIX_DATA_ARRAY:
        return same_array(a->data.darray, b->data.darray);
    default:
        return false;
    }
}

/* Address of a value's datum, as PMIx_Value_load, Info_load and Data_pack take it. */
static UNUSED void *datum_of(pmix_value_t *value)
{
    switch (value->type) {
    case PMIX_STRING: return value->data.string;
    case PMIX_PROC: return value->data.proc;
    case PMIX_PROC_INFO: return value->data.pinfo;
    case PMIX_DATA_ARRAY: return value->data.darray;
    case PMIX_COORD: return value->data.coord;
    default: return &value->data;
    }
}

#endif
