/* A scheduler looks at the communication costs of its machine: exercise 2 of the tutorial, and the one for schedulers.
 *
 *   cc costs.c -o costs -lpmix
 *   PMIX_MCA_pnet=test PMIX_MCA_pnet_test_nverts="nodes:5;plane:d:3" ./costs 3 test001
 *
 * The machine is made up: 5 nodes with a device each, and 3 switches with two ports for devices. The program prints the costs of all pairs of
 * devices, a device by its number, the number of a node's first device, and the nearest other nodes.
 */
#include <pmix.h>
#include <pmix_server.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

static const pmix_value_t *find(const pmix_info_t *infos, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (PMIX_CHECK_KEY(&infos[i], key)) return &infos[i].value;
    }
    fprintf(stderr, "%s is missing\n", key);
    exit(1);
}

/* A fact about a device, which is an array of infos. */
static const pmix_value_t *fact(const pmix_value_t *device, const char *key)
{
    return find(device->data.darray->array, device->data.darray->size, key);
}

/* What the fabric has under a key, for a qualifier. */
static pmix_value_t *ask(const char *key, const char *name, const void *value, pmix_data_type_t type)
{
    pmix_info_t qualifier;
    pmix_value_t *found;

    PMIX_INFO_LOAD(&qualifier, name, value, type);
    check(PMIx_Get(NULL, key, &qualifier, 1, &found), key);
    PMIX_INFO_DESTRUCT(&qualifier);
    return found;
}

static uint32_t first_device_of(const char *node)
{
    pmix_value_t *devices = ask(PMIX_FABRIC_DEVICES, PMIX_HOSTNAME, node, PMIX_STRING);
    const pmix_info_t *first = devices->data.darray->array;
    uint32_t index = fact(&first->value, PMIX_FABRIC_DEVICE_INDEX)->data.uint32;

    PMIX_VALUE_RELEASE(devices);
    return index;
}

static void print_device(uint32_t index)
{
    pmix_value_t *device = ask(PMIX_FABRIC_DEVICE, PMIX_FABRIC_DEVICE_INDEX, &index, PMIX_UINT32);

    printf("device %u is %s of node %s, at %s\n", index, fact(device, PMIX_FABRIC_DEVICE_NAME)->data.string,
           fact(device, PMIX_HOSTNAME)->data.string, fact(device, PMIX_FABRIC_SWITCH)->data.string);
    PMIX_VALUE_RELEASE(device);
}

/* The nodes with a device at the least cost from a device. Each device stands for its node. */
static void print_nearest(uint32_t from, const char *own, const uint16_t *costs, uint32_t count)
{
    uint16_t least = UINT16_MAX;
    char last[256] = "";

    for (int is_found = 0; is_found < 2; is_found++) {
        for (uint32_t other = 0; other < count; other++) {
            pmix_value_t *device = ask(PMIX_FABRIC_DEVICE, PMIX_FABRIC_DEVICE_INDEX, &other, PMIX_UINT32);
            const char *node = fact(device, PMIX_HOSTNAME)->data.string;
            uint16_t cost = costs[from * count + other];

            if (strcmp(node, own) != 0) {
                if (!is_found && cost < least) least = cost;
                if (is_found && cost == least && strcmp(node, last) != 0) printf("near device %u, cost %u: %s\n", from, cost, node);
                if (is_found && cost == least) snprintf(last, sizeof last, "%s", node);
            }
            PMIX_VALUE_RELEASE(device);
        }
    }
}

int main(int argc, char **argv)
{
    pmix_server_module_t module = {0};
    pmix_fabric_t fabric;
    pmix_info_t info;
    bool yes = true;

    if (argc != 3) {
        fprintf(stderr, "usage: costs DEVICE NODE\n");
        return 1;
    }
    PMIX_INFO_LOAD(&info, PMIX_SERVER_SCHEDULER, &yes, PMIX_BOOL);
    check(PMIx_server_init(&module, &info, 1), "PMIx_server_init");
    PMIX_FABRIC_CONSTRUCT(&fabric);
    check(PMIx_Fabric_register(&fabric, NULL, 0), "PMIx_Fabric_register");
    /* The costs belong to the library until the next update or the end of the registration. */
    uint32_t count = (uint32_t)find(fabric.info, fabric.ninfo, PMIX_FABRIC_NUM_DEVICES)->data.size;
    const uint16_t *costs = find(fabric.info, fabric.ninfo, PMIX_FABRIC_COST_MATRIX)->data.ptr;
    printf("%u devices\n", count);
    for (uint32_t row = 0; row < count; row++) {
        for (uint32_t column = 0; column < count; column++) printf("%s%u", column ? " " : "", costs[row * count + column]);
        printf("\n");
    }
    print_device((uint32_t)strtoul(argv[1], NULL, 10));
    uint32_t first = first_device_of(argv[2]);
    printf("the first device of node %s is number %u\n", argv[2], first);
    print_nearest(first, argv[2], costs, count);
    check(PMIx_Fabric_deregister(&fabric), "PMIx_Fabric_deregister");
    check(PMIx_server_finalize(), "PMIx_server_finalize");
    return 0;
}
