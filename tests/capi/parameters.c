/* Files of parameters, as OpenPMIx reads them: the user's file sets the place of the address's report, the variables of
 * jobs and the form of output; a variable of the environment has precedence; a broken line and a name without an effect
 * are told. */
#include "host.h"

#include <fcntl.h>
#include <sys/stat.h>

static pmix_server_module_t module; /* nothing */
static char home[] = "/tmp/modex-parameters-XXXXXX";
static char path[256];

static const char *in_home(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", home, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_home(name), "w");
    CHECK(file && fputs(text, file) >= 0);
    if (file) fclose(file);
}

static const char *text_of(const char *name)
{
    static char text[65536];
    FILE *file = fopen(in_home(name), "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file) fclose(file);
    return text;
}

/* The names of the variables that a job gets. */
static char names[1024];
static atomic_int collected;

static void take(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *object, pmix_op_cbfunc_t release, void *token)
{
    (void)object;
    CHECK_STATUS(PMIX_SUCCESS, status);
    names[0] = '\0';
    for (size_t n = 0; n < ninfo; n++) {
        if (!PMIX_CHECK_KEY(&info[n], PMIX_SET_ENVAR)) continue;
        strcat(names, info[n].value.data.envar.envar), strcat(names, " ");
    }
    if (release) release(PMIX_SUCCESS, token);
    atomic_store(&collected, 1);
}

static const char *variables_of(const char *job)
{
    pmix_info_t wish;
    bool yes = true;
    PMIX_INFO_LOAD(&wish, PMIX_SETUP_APP_ENVARS, &yes, PMIX_BOOL);
    atomic_store(&collected, 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_application(job, &wish, 1, take, NULL));
    while (!atomic_load(&collected)) usleep(1000);
    return names;
}

int main(void)
{
    pmix_info_t info[2];
    char text[1024];
    bool yes = true;
    int errors, own_errors;

    if (stock()) { /* its file has the same place; its names have other effects */
        CHECK(true);
        return finish();
    }
    CHECK(mkdtemp(home) != NULL);
    CHECK(mkdir(in_home(".pmix"), 0700) == 0);
    snprintf(text, sizeof text,
             "# the user's file\n\nptl_base_report_uri = %s/report\nforward_envars = CAPI_ONE\nno value\ngds = hash\n"
             "ptl_base_disable_ipv6_family = perhaps\niof_xml_output = 1\n", home);
    write_file(".pmix/mca-params.conf", text);
    setenv("HOME", home, 1), setenv("TMPDIR", home, 1), setenv("MODEX_LOG", "debug", 1);
    unsetenv("PMIX_MCA_mca_base_param_files");
    setenv("CAPI_ONE", "1", 1), setenv("CAPI_TWO", "2", 1), setenv("PMIX_MCA_bfrops", "v20", 1);

    own_errors = dup(2);
    errors = open(in_home("errors"), O_WRONLY | O_CREAT, 0600);
    CHECK(errors >= 0 && dup2(errors, 2) == 2);
    close(errors);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_IOF_LOCAL_OUTPUT, &yes, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_init(&module, info, 2));
    dup2(own_errors, 2);
    close(own_errors);

    CHECK(strchr(text_of("report"), ';') != NULL);
    CHECK(strstr(text_of("errors"), "mca-params.conf, line 5 is ignored: it has no \"=\"") != NULL);
    CHECK(strstr(text_of("errors"), "the parameter gds has no effect here") != NULL);
    CHECK(strstr(text_of("errors"), "the parameter bfrops has no effect here (environment)") != NULL);
    CHECK(strstr(text_of("errors"), "ptl_base_disable_ipv6_family is \"perhaps\" and is ignored") != NULL);
    CHECK(strstr(text_of("errors"), "parameter forward_envars") == NULL);

    CHECK_TEXT("CAPI_ONE ", variables_of("of-file"));
    setenv("PMIX_MCA_forward_envars", "CAPI_TWO", 1);
    CHECK_TEXT("CAPI_TWO ", variables_of("of-environment"));

    /* Output in the form of the file. */
    int out = dup(1), to = open(in_home("output"), O_WRONLY | O_CREAT, 0600);
    pmix_proc_t source = proc_of("job", 3);
    pmix_byte_object_t bytes = {(char *)"a line\n", 7};
    fflush(stdout);
    CHECK(to >= 0 && dup2(to, 1) == 1);
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, PMIx_server_IOF_deliver(&source, PMIX_FWD_STDOUT_CHANNEL, &bytes, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_finalize());
    dup2(out, 1);
    close(out), close(to);
    CHECK(strncmp(text_of("output"), "<", 1) == 0);

    static const char *const files[] = {".pmix/mca-params.conf", "report", "errors", "output"};
    for (size_t n = 0; n < sizeof files / sizeof *files; n++) unlink(in_home(files[n]));
    rmdir(in_home(".pmix")), rmdir(home);
    return finish();
}
