/* The TCP options of a server: the address that it reports is the one at which it listens, and there is no other one. A required
 * option without effect is refused. */
#include "host.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* The TCP sockets of this process that listen, as ADDRESS:PORT with a comma between two. */
static void listening(char *list, size_t size)
{
    DIR *descriptors = opendir("/proc/self/fd");

    *list = 0;
    for (struct dirent *entry; descriptors && (entry = readdir(descriptors));) {
        struct sockaddr_storage place;
        socklen_t length = sizeof place;
        int is_listening = 0, fd = atoi(entry->d_name);
        socklen_t flag = sizeof is_listening;
        char text[INET6_ADDRSTRLEN] = "";

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &flag) != 0 || !is_listening) continue;
        if (getsockname(fd, (struct sockaddr *)&place, &length) != 0 || place.ss_family == AF_UNIX) continue;
        const struct sockaddr_in *ipv4 = (void *)&place;
        const struct sockaddr_in6 *ipv6 = (void *)&place;
        bool is_ipv4 = place.ss_family == AF_INET;
        inet_ntop(place.ss_family, is_ipv4 ? (const void *)&ipv4->sin_addr : (const void *)&ipv6->sin6_addr, text, sizeof text);
        snprintf(list + strlen(list), size - strlen(list), "%s%s:%u", *list ? "," : "", text,
                 ntohs(is_ipv4 ? ipv4->sin_port : ipv6->sin6_port));
    }
    if (descriptors) closedir(descriptors);
}

/* The place in the server's address, as ADDRESS:PORT. Empty for a server without TCP. */
static void reported(char *place, size_t size)
{
    pmix_proc_t self = proc_of("capi-host", 0);
    pmix_value_t *uri = get(&self, PMIX_SERVER_URI, PMIX_STRING);
    const char *tcp = uri ? strstr(uri->data.string, ";tcp") : NULL;

    *place = 0;
    for (const char *from = tcp ? strstr(tcp, "//") + 2 : ""; *from && *from != ';' && strlen(place) + 1 < size; from++)
        if (*from != '[' && *from != ']') strncat(place, from, 1);
    value_free(uri);
}

/* ---- The options of one server. */
static pmix_info_t options[4];
static size_t option_count;

static void option(const char *key, const void *value, pmix_data_type_t type, bool is_required)
{
    pmix_info_t *info = &options[option_count++];
    PMIX_INFO_LOAD(info, key, value, type);
    if (is_required) PMIX_INFO_REQUIRED(info);
}

static void flag_option(const char *key, bool is_required)
{
    bool yes = true;
    option(key, &yes, PMIX_BOOL, is_required);
}

static void options_end(void)
{
    for (size_t i = 0; i < option_count; i++) PMIX_INFO_DESTRUCT(&options[i]);
    option_count = 0;
}

/* Starts a server with the options. It listens at this address alone (NULL: at none), and reports it. Returns the port. */
static int serves_at(const char *address)
{
    static pmix_server_module_t module;
    char places[512], place[128];

    host_start_with(&module, options, option_count);
    listening(places, sizeof places);
    reported(place, sizeof place);
    CHECK_TEXT(places, place);
    char *colon = strrchr(place, ':');
    int port = colon ? atoi(colon + 1) : 0;
    if (colon) *colon = 0;
    CHECK_TEXT(address ? address : "", place);
    host_stop();
    options_end();
    return port;
}

/* A server with the options does not start, and leaves no socket. */
static void refused(pmix_status_t expected)
{
    static pmix_server_module_t module;
    char before[512], after[512];

    listening(before, sizeof before);
    CHECK_STATUS(expected, PMIx_server_init(&module, options, option_count));
    listening(after, sizeof after);
    CHECK_TEXT(before, after);
    options_end();
}

/* A socket at a port that no server can take meanwhile. The kernel gives such a port to nobody that does not ask for it. */
static int taken(int *port)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    for (*port = 20000 + getpid() % 10000; *port < 32000; ++*port) {
        place.sin_port = htons((uint16_t)*port);
        if (bind(fd, (struct sockaddr *)&place, sizeof place) == 0) break;
    }
    CHECK_NUMBER(0, listen(fd, 1));
    return fd;
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 place = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool can_bind = fd >= 0 && bind(fd, (struct sockaddr *)&place, sizeof place) == 0;

    if (fd >= 0) close(fd);
    return can_bind;
}

static void families(void)
{
    CHECK(serves_at("127.0.0.1") > 0);
    flag_option(PMIX_TCP_DISABLE_IPV6, true);
    CHECK(serves_at("127.0.0.1") > 0);
    if (has_ipv6()) {
        flag_option(PMIX_TCP_DISABLE_IPV4, true);
        CHECK(serves_at("::1") > 0);
    }
    flag_option(PMIX_TCP_DISABLE_IPV4, true);
    flag_option(PMIX_TCP_DISABLE_IPV6, true);
    serves_at(NULL);
}

static void ports(void)
{
    int port, too_large = 70000, fd = taken(&port);

    option(PMIX_TCP_IPV4_PORT, &port, PMIX_INT, false);
    refused(PMIX_ERR_INIT);
    close(fd);
    option(PMIX_TCP_IPV4_PORT, &port, PMIX_INT, true);
    CHECK_NUMBER(port, serves_at("127.0.0.1"));
    if (has_ipv6()) {
        option(PMIX_TCP_IPV6_PORT, &port, PMIX_INT, true);
        CHECK_NUMBER(port, serves_at("::1"));
    }
    /* A port of a family that is off has no effect. */
    option(PMIX_TCP_IPV4_PORT, &port, PMIX_INT, true);
    flag_option(PMIX_TCP_DISABLE_IPV4, false);
    refused(PMIX_ERR_NOT_SUPPORTED);
    option(PMIX_TCP_IPV4_PORT, &too_large, PMIX_INT, false);
    refused(PMIX_ERR_BAD_PARAM);
}

/* An interface with an IPv4 address, the loopback one if there is no other one. */
static void find_interface(char *name, char *address)
{
    struct ifaddrs *all = NULL;

    strcpy(name, "lo");
    strcpy(address, "127.0.0.1");
    CHECK_NUMBER(0, getifaddrs(&all));
    for (struct ifaddrs *each = all; each; each = each->ifa_next) {
        bool is_other = (each->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
        if (!is_other || !each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
        snprintf(name, IF_NAMESIZE, "%s", each->ifa_name);
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr, address, INET_ADDRSTRLEN);
        break;
    }
    freeifaddrs(all);
}

/* Processes on other machines prove their user by munge. Without it no server can admit them. */
static void interfaces(void)
{
    bool has_munge = system("munge -n >/dev/null 2>&1") == 0;
    char name[IF_NAMESIZE], address[INET_ADDRSTRLEN], subnet[INET_ADDRSTRLEN + 4];

    find_interface(name, address);
    snprintf(subnet, sizeof subnet, "%s/32", address);
    printf("%s at %s, munge: %d\n", name, address, has_munge);
    const char *lists[] = {name, subnet};
    for (size_t i = 0; i < 2; i++) {
        flag_option(PMIX_SERVER_REMOTE_CONNECTIONS, true);
        option(PMIX_TCP_IF_INCLUDE, lists[i], PMIX_STRING, true);
        if (has_munge) CHECK(serves_at(address) > 0);
        else refused(PMIX_ERR_NOT_SUPPORTED);
    }
    flag_option(PMIX_SERVER_REMOTE_CONNECTIONS, true);
    option(PMIX_TCP_IF_INCLUDE, subnet, PMIX_STRING, true);
    option(PMIX_TCP_IF_EXCLUDE, name, PMIX_STRING, true);
    refused(has_munge ? PMIX_ERR_INIT : PMIX_ERR_NOT_SUPPORTED);
    /* Interfaces have no effect on a server for this machine alone. */
    option(PMIX_TCP_IF_INCLUDE, name, PMIX_STRING, true);
    refused(PMIX_ERR_NOT_SUPPORTED);
    option(PMIX_TCP_IF_INCLUDE, name, PMIX_STRING, false);
    CHECK(serves_at("127.0.0.1") > 0);
}

static int host(void)
{
    if (stock()) return host_idle(); /* its choice of addresses is its own */
    families();
    ports();
    interfaces();
    return finish();
}

int main(void) { return host(); }
