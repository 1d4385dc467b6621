import a_package_that_is_not_installed


def run(x, weight, eps):
    return a_package_that_is_not_installed.rmsnorm(x, weight, eps)
